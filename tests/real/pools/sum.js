// Threads of worker_threads, one for each processor that os.availableParallelism() tells of, this
// one included. They sleep by Atomics.wait where they wait.
//
// What it computes and how it is spoken to is said in spin.rs.
'use strict';
const os = require('os');
const readline = require('readline');
const { Worker, isMainThread, workerData } = require('worker_threads');

const ITEMS = 8000, STEPS = 64;
// Of the words that all share.
const TURN = 0, DONE = 1, PHASE = 2, SUM = 3;

function part(phase, index, count) {
  let sum = 0;
  const end = Math.floor(ITEMS * (index + 1) / count);
  for (let item = Math.floor(ITEMS * index / count); item < end; item++) {
    let x = (phase * ITEMS + item + 1) | 0;
    for (let step = 0; step < STEPS; step++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
    }
    sum = (sum + x) | 0;
  }
  return sum;
}

function serve({ words, index, count }) {
  for (let turn = 0; ; turn++) {
    // A notification of the turn before may come late, when this thread has done that one.
    while (Atomics.load(words, TURN) === turn) Atomics.wait(words, TURN, turn);
    Atomics.add(words, SUM, part(Atomics.load(words, PHASE), index, count));
    Atomics.add(words, DONE, 1);
    Atomics.notify(words, DONE);
  }
}

function work(words, phases, count) {
  Atomics.store(words, SUM, 0);
  for (let phase = 0; phase < phases; phase++) {
    Atomics.store(words, PHASE, phase);
    Atomics.store(words, DONE, 0);
    Atomics.add(words, TURN, 1);
    Atomics.notify(words, TURN);
    Atomics.add(words, SUM, part(phase, 0, count));
    for (let done; (done = Atomics.load(words, DONE)) < count - 1;) Atomics.wait(words, DONE, done);
  }
  return Atomics.load(words, SUM) >>> 0;
}

function main() {
  const phases = Number(process.argv[2] || 1000);
  const count = process.env.OMP_NUM_THREADS === '1' ? 1 : os.availableParallelism();
  const words = new Int32Array(new SharedArrayBuffer(16));
  for (let index = 1; index < count; index++) {
    new Worker(__filename, { workerData: { words, index, count } });
  }
  // The workers are started by this thread's event loop, and their code is compiled then.
  setImmediate(() => {
    work(words, 100, count);
    console.log('ready');
    const lines = readline.createInterface({ input: process.stdin });
    lines.on('line', () => {
      const begin = process.hrtime.bigint();
      const sum = work(words, phases, count);
      const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
      console.log(JSON.stringify({ seconds, result: [sum] }));
    });
    lines.on('close', () => process.exit(0));
  });
}

if (isMainThread) main();
else serve(workerData);
