// One round of one subject, in a process of its own: what one subject does to the optimizer, the heap and the memory
// must not slow another. Started by schedule.mjs, which gets the figures as a message.

import { efforts } from './effort.mjs';
import { runners } from './runners/index.mjs';
import { subjectNamed } from './subjects/index.mjs';
import { workloadNamed } from './workloads/index.mjs';

process.once('message', ({ workload: name, subject, effort, iterationsPerNanosecond }) => {
  const workload = workloadNamed(name);
  runners[workload.runner](workload, subjectNamed(subject), efforts[effort], iterationsPerNanosecond).then(
    (figures) => process.send({ figures }, () => process.exit()),
    (error) =>
      process.send({ error: String(error?.message ?? error), figures: error?.figures }, () => process.exit()),
  );
});
