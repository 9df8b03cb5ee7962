import { gzipSync } from 'node:zlib';
import { Function, Label, Line, Location, Profile, Sample, StringTable, ValueType } from 'pprof-format';
import type { Site } from './collector.js';
import { frameOf } from './frame.js';

const NANOSECONDS = 1e6;
/** The frames that represent an unknown stack. */
const UNKNOWN = ['(not captured)'];

/** The tables of a profile, which contain each text, function and location once. */
class Tables {
  readonly texts = new StringTable();
  readonly functions = new Map<string, Function>();
  readonly locations = new Map<string, Location>();

  text(value: string): number {
    return this.texts.dedup(value);
  }

  /** The id of the location for a line of a stack. */
  locationOf(line: string): number {
    let known = this.locations.get(line);
    if (known === undefined) {
      const frame = frameOf(line);
      const functionId = this.#functionOf(frame.name, frame.file);
      known = new Location({
        id: this.locations.size + 1,
        line: [new Line({ functionId, line: frame.line })],
      });
      this.locations.set(line, known);
    }
    return Number(known.id);
  }

  #functionOf(name: string, file: string): number {
    const key = `${name}\n${file}`;
    let known = this.functions.get(key);
    if (known === undefined) {
      const id = this.functions.size + 1;
      known = new Function({
        id,
        name: this.text(name),
        systemName: this.text(name),
        filename: this.text(file),
      });
      this.functions.set(key, known);
    }
    return Number(known.id);
  }

  valueType(type: string, unit: string): ValueType {
    return new ValueType({ type: this.text(type), unit: this.text(unit) });
  }

  label(key: string, value: string): Label {
    return new Label({ key: this.text(key), str: this.text(value) });
  }

  sampleOf({ lock, key, frames, waits, waited }: Site, caused: boolean): Sample {
    const counts = [Math.round(waits), Math.round(waited * NANOSECONDS)];
    return new Sample({
      locationId: (frames.length > 0 ? frames : UNKNOWN).map((line) => this.locationOf(line)),
      value: caused ? [0, 0, ...counts] : [...counts, 0, 0],
      label: [this.label('lock', lock), this.label('key', key)],
    });
  }
}

/**
 * A gzipped profile for `pprof` and tools that read its format. `contentions` and `delay` belong to the calls
 * that waited, `caused_contentions` and `caused_delay` to the calls that released the contended keys. Each
 * sample has the labels `lock` and `key`.
 *
 * The format: https://github.com/google/pprof/blob/main/proto/profile.proto
 *
 * @param began Milliseconds since 1970.
 * @param duration Milliseconds.
 */
export function pprofOf(
  waiting: Iterable<Site>,
  releasing: Iterable<Site>,
  began: number,
  duration: number,
): Uint8Array {
  const tables = new Tables();
  const sample = [
    ...[...waiting].map((site) => tables.sampleOf(site, false)),
    ...[...releasing].map((site) => tables.sampleOf(site, true)),
  ];
  const profile = new Profile({
    sampleType: [
      tables.valueType('contentions', 'count'),
      tables.valueType('delay', 'nanoseconds'),
      tables.valueType('caused_contentions', 'count'),
      tables.valueType('caused_delay', 'nanoseconds'),
    ],
    sample,
    location: [...tables.locations.values()],
    function: [...tables.functions.values()],
    stringTable: tables.texts,
    timeNanos: BigInt(Math.round(began)) * BigInt(NANOSECONDS),
    durationNanos: Math.round(duration * NANOSECONDS),
    defaultSampleType: tables.text('delay'),
  });
  return gzipSync(profile.encode());
}
