import { describe } from 'vitest';
import type { SetUp } from '../support/set-up.js';
import { calls } from './chapters/calls.js';
import { cancellation } from './chapters/cancellation.js';
import { draining } from './chapters/draining.js';
import { errors } from './chapters/errors.js';
import { habits } from './chapters/habits.js';
import { interceptors } from './chapters/interceptors.js';
import { largeBodies } from './chapters/large-bodies.js';
import { lateStreams } from './chapters/late-streams.js';
import { leftovers } from './chapters/leftovers.js';
import { limits } from './chapters/limits.js';
import { lostConnections } from './chapters/lost-connections.js';
import { meddlingCodecs } from './chapters/meddling-codecs.js';
import { metadata } from './chapters/metadata.js';
import { streams } from './chapters/streams.js';
import { tracing } from './chapters/tracing.js';
import { unreadStreams } from './chapters/unread-streams.js';
import { withdrawn } from './chapters/withdrawn.js';

/** What rpc does on every transport, in words: this list is the table of contents, each chapter a file. */
export function rpc(name: string, setUp: SetUp): void {
  describe(`rpc over ${name}`, () => {
    describe('calls', () => calls(setUp));
    describe('large bodies', () => largeBodies(setUp));
    describe('streams', () => streams(setUp));
    describe('streams whose source comes late', () => lateStreams(setUp));
    describe('streams to a peer that does not read', () => unreadStreams(setUp));
    describe('metadata', () => metadata(setUp));
    describe('errors', () => errors(setUp));
    describe('deadlines and cancellation', () => cancellation(setUp));
    describe('requests that are cancelled before they leave', () => withdrawn(setUp));
    describe('limits', () => limits(setUp));
    describe('draining', () => draining(setUp));
    describe('lost connections', () => lostConnections(setUp));
    describe('codecs that meddle', () => meddlingCodecs(setUp));
    describe('interceptors', () => interceptors(setUp));
    describe('tracing', () => tracing(setUp));
    describe('habits of Node.js', () => habits(setUp));
    describe('nothing stays behind', () => leftovers(setUp));
  });
}
