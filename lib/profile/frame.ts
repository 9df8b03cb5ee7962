/** A frame of a stack, in the form that tools expect. */
export interface Frame {
  readonly name: string;
  /** The path of the file; empty if unknown. */
  readonly file: string;
  readonly line: number;
}

const PLACE = /^(?:(?<name>.*?) \()?(?<file>[^()]+?):(?<line>\d+):\d+\)?$/;

/** Parses a line of a stack, without its "at". An anonymous function is named after its place. */
export function frameOf(text: string): Frame {
  const { name, file, line } = PLACE.exec(text)?.groups ?? {};
  if (file === undefined) return { name: text, file: '', line: 0 };
  const short = name?.replace(/^async /, '') ?? `(${file.slice(file.search(/[^/\\]*$/))}:${line})`;
  return { name: short, file: file.replace(/^(?:async )?(?:file:\/\/)?/, ''), line: Number(line) };
}
