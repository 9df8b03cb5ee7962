/** A frame of a stack, as tools want it. */
export interface Frame {
  readonly name: string;
  /** A path; empty if it is not known. */
  readonly file: string;
  readonly line: number;
}

const PLACE = /^(?:(?<name>.*?) \()?(?<file>[^()]+?):(?<line>\d+):\d+\)?$/;

/** Reads a line of a stack, without its "at". A function without a name gets its place for one. */
export function frameOf(text: string): Frame {
  const { name, file, line } = PLACE.exec(text)?.groups ?? {};
  if (file === undefined) return { name: text, file: '', line: 0 };
  const short = name?.replace(/^async /, '') ?? `(${file.slice(file.search(/[^/\\]*$/))}:${line})`;
  return { name: short, file: file.replace(/^(?:async )?(?:file:\/\/)?/, ''), line: Number(line) };
}
