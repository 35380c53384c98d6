import { describe } from 'vitest';
import type { SetUp } from '../support/set-up.js';
import { aborts } from './chapters/aborts.js';
import { backpressure } from './chapters/backpressure.js';
import { badInput } from './chapters/bad-input.js';
import { close } from './chapters/close.js';
import { connecting } from './chapters/connecting.js';
import { crash } from './chapters/crash.js';
import { greeting } from './chapters/greeting.js';
import { incomingLeases } from './chapters/incoming-leases.js';
import { leftovers } from './chapters/leftovers.js';
import { lifecycle } from './chapters/lifecycle.js';
import { listening } from './chapters/listening.js';
import { observing } from './chapters/observing.js';
import { oneSided } from './chapters/one-sided.js';
import { oneSidedRefusals } from './chapters/one-sided-refusals.js';
import { oneSidedVectors } from './chapters/one-sided-vectors.js';
import { ordering } from './chapters/ordering.js';
import { outgoingLeases } from './chapters/outgoing-leases.js';
import { receiving } from './chapters/receiving.js';
import { silence } from './chapters/silence.js';
import { sizes } from './chapters/sizes.js';
import { states } from './chapters/states.js';

/** What every transport must do, in words: this is the table of contents, each chapter a file. */
const chapters = {
  'life of a connection': lifecycle,
  connecting: connecting,
  listening: listening,

  order: ordering,
  'message sizes': sizes,
  'receiving by callback and by iteration': receiving,
  'leases of received messages': incomingLeases,
  'leases of outgoing buffers': outgoingLeases,
  backpressure: backpressure,

  'one-sided memory': oneSided,
  'vectors of one-sided operations': oneSidedVectors,
  'one-sided memory that is refused': oneSidedRefusals,

  'closing in order': close,
  aborting: aborts,
  'a peer that dies': crash,
  'a peer that is silent': silence,
  'a peer that is not known yet': greeting,

  'every method in every state': states,
  'every wrong argument': badInput,

  'being observed': observing,
  'leaving nothing behind': leftovers,
} satisfies Record<string, (setUp: SetUp) => void>;

export type Chapter = keyof typeof chapters;

/**
 * All of it, or some chapters where another suite of the same transport has the rest. A test of a capability that a transport has not
 * is skipped, and says so in its title.
 */
export function conformance(
  name: string,
  setUp: SetUp,
  titles: readonly Chapter[] = Object.keys(chapters) as Chapter[],
): void {
  describe(`the ${name} transport`, () => {
    for (const title of titles) describe(title, () => chapters[title](setUp));
  });
}
