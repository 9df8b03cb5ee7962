import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { terminalSignals } from '../engine/select.js';
import { say } from './words.js';

/** How the command ended. This process ends in the same way. */
export interface Ending {
  readonly code: number;
  /** The signal that ended the command. */
  readonly signal?: NodeJS.Signals;
}

/** How a command starts. */
export interface Start {
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  /** Whether to report how the command ended. */
  readonly verbose: boolean;
  readonly stdio: StdioOptions;
  /** Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  /** Called once the command runs. */
  readonly started?: (child: ChildProcess) => void;
}

/** Runs a program until it ends, and forwards signals to it. */
export async function runChild({ command, verbose, stdio, env, started }: Start): Promise<Ending> {
  const [program, ...args] = command;
  const running: Running = {};
  // Registered before the command starts. Otherwise a signal could end only this process.
  forwardSignals(running);
  try {
    running.child = spawn(program, args, { stdio, env });
    started?.(running.child);
    const [code, signal] = (await once(running.child, 'exit')) as [number | null, NodeJS.Signals | null];
    if (verbose) say(signal === null ? `the command ended with code ${code}` : `${signal} ended the command`);
    return signal === null ? { code: code! } : endingBy(signal);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    say(`cannot run ${JSON.stringify(program)}: ${code === 'ENOENT' ? 'there is no such command' : message}`);
    return { code: code === 'ENOENT' ? 127 : 126 };
  }
}

/** The ending by this signal. This process then ends as if the signal had ended it. */
export const endingBy = (signal: NodeJS.Signals): Ending => ({
  code: 128 + constants.signals[signal],
  signal,
});

/** The signals that other processes send to end a program. They end a program that does not handle them. */
export const ENDING: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGINT', 'SIGTERM'];

/**
 * Calls `call` once for each signal, instead of ending this process. If the same signal arrives again, it
 * ends this process. The returned function removes the handlers.
 */
export function onceSignalled(call: (signal: NodeJS.Signals) => void): () => void {
  for (const signal of ENDING) process.once(signal, call);
  return () => {
    for (const signal of ENDING) process.removeListener(signal, call);
  };
}

interface Running {
  child?: ChildProcess;
}

const FORWARDED: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];
/**
 * If the user presses a key, the terminal sends these signals to its whole foreground process group, which
 * includes the command.
 */
const TERMINAL_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];

/**
 * Forwards each signal to the command, unless the terminal has also sent the signal to the command. Many
 * programs end without cleaning up when they receive a second SIGINT.
 */
function forwardSignals(running: Running): void {
  const terminal = terminalSignals();
  for (const signal of FORWARDED.filter((name) => name in constants.signals)) {
    const number = constants.signals[signal];
    const mayBeOfTerminal = TERMINAL_SIGNALS.includes(signal);
    process.on(signal, () => {
      if (!(mayBeOfTerminal && terminal.take(number))) running.child?.kill(signal);
    });
    if (mayBeOfTerminal) terminal.count(number);
  }
}
