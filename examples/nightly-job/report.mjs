/** The job's output, in memory that all threads share. In a real program this is a file, a table or a service. */
export class Report {
  static from(handle) {
    return new Report(handle);
  }

  constructor(
    handle = {
      token: new BigInt64Array(new SharedArrayBuffer(8)),
      numbers: new Int32Array(new SharedArrayBuffer(12)),
    },
  ) {
    this.handle = handle;
  }

  /** To be called only after the gate has admitted the token. */
  write(author, token) {
    const { token: newest, numbers } = this.handle;
    newest[0] = token;
    numbers[0] = author;
    numbers[1]++;
  }

  /** The job is done for tonight. */
  finish() {
    this.handle.numbers[2] = 1;
  }

  get isFinished() {
    return this.handle.numbers[2] === 1;
  }

  read() {
    const { token, numbers } = this.handle;
    return { author: `worker ${numbers[0]}`, token: token[0], lines: numbers[1] };
  }
}
