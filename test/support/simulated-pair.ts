import { constants } from 'node:os';
import type { ConnectionOptions } from '@verbmq/core';
import type { RdmaTransportOptions } from '@verbmq/native';
import { expect } from 'vitest';
import { connectPair, type Pair } from './pair.js';
import type { SetUp } from './set-up.js';
import type { SimulatedDevice } from './simulated-device.js';
import { simulatedRdmaSetUp } from './transports/rdma-simulated.js';
import { until } from './until.js';

export const { errno } = constants;

/** Ends a test that would wait for ever within seconds. */
export const SHORT: ConnectionOptions = {
  heartbeatIntervalMs: 100,
  peerTimeoutMs: 3000,
  closeTimeoutMs: 3000,
  handshakeTimeoutMs: 3000,
};

export function simulatedSetUp(device: SimulatedDevice, own: RdmaTransportOptions = {}): SetUp {
  return simulatedRdmaSetUp(device, { ...SHORT, ...own });
}

export function simulatedPair(device: SimulatedDevice, own: RdmaTransportOptions = {}): Promise<Pair> {
  return connectPair(simulatedSetUp(device, own));
}

/** Closes both sides' transports, and finds that no verbs object is left and none was given back out of order. */
export async function expectNothingLeft(device: SimulatedDevice, pair: Pair): Promise<void> {
  await Promise.all([pair.clientTransport.close(), pair.serverTransport.close()]);
  await until(() => Object.keys(device.leftOver()).length === 0);
  expect(device.count('busy')).toBe(0);
}
