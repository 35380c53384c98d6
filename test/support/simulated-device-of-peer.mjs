import { createRequire } from 'node:module';

/** Gives the process of a peer a simulated device of its own; see simulated-device.ts. */
export function prepare({ library, control, personality }) {
  createRequire(import.meta.url)(control).call(library, 'reset', personality);
}
