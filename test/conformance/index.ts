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

/**
 * What every transport must do, in words: this list is the table of contents, each chapter a file. A test of a capability that a transport has not
 * is skipped, and says so in its title.
 */
export function conformance(name: string, setUp: SetUp): void {
  describe(`the ${name} transport`, () => {
    describe('life of a connection', () => lifecycle(setUp));
    describe('connecting', () => connecting(setUp));
    describe('listening', () => listening(setUp));

    describe('order', () => ordering(setUp));
    describe('message sizes', () => sizes(setUp));
    describe('receiving by callback and by iteration', () => receiving(setUp));
    describe('leases of received messages', () => incomingLeases(setUp));
    describe('leases of outgoing buffers', () => outgoingLeases(setUp));
    describe('backpressure', () => backpressure(setUp));

    describe('one-sided memory', () => oneSided(setUp));
    describe('vectors of one-sided operations', () => oneSidedVectors(setUp));
    describe('one-sided memory that is refused', () => oneSidedRefusals(setUp));

    describe('closing in order', () => close(setUp));
    describe('aborting', () => aborts(setUp));
    describe('a peer that dies', () => crash(setUp));
    describe('a peer that is silent', () => silence(setUp));
    describe('a peer that is not known yet', () => greeting(setUp));

    describe('every method in every state', () => states(setUp));
    describe('every wrong argument', () => badInput(setUp));

    describe('being observed', () => observing(setUp));
    describe('leaving nothing behind', () => leftovers(setUp));
  });
}
