/** A frame of a stack, as tools want it. */
export interface Frame {
  readonly name: string;
  /** A path; empty if it is not known. */
  readonly file: string;
  readonly line: number;
}

const PLACE = /^(?:(?<name>.*?) \()?(?<file>[^()]+?):(?<line>\d+):\d+\)?$/;
const ANONYMOUS = '(anonymous)';

/** Reads a line of a stack, without its "at". */
export function frameOf(text: string): Frame {
  const { name, file, line } = PLACE.exec(text)?.groups ?? {};
  if (file === undefined) return { name: text, file: '', line: 0 };
  return { name: name ?? ANONYMOUS, file: file.replace(/^file:\/\//, ''), line: Number(line) };
}
