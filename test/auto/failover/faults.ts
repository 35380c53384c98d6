import { setTimeout as delay } from 'node:timers/promises';
import type { AutoConnection } from '@verbmq/core/auto';
import { onBase } from '../../support/auto-pair.js';
import { cut, restore } from '../../vm/cable.mjs';
import type { Host } from './host.js';

export interface Scene {
  readonly client: AutoConnection;
  /** The host at which it happens. */
  readonly host: Host;
  readonly random: () => number;
  /** Begins to measure, at both hosts. */
  readonly watch: () => Promise<unknown>;
}

export interface Aftermath {
  /** How long no message could pass whatever anybody did, in milliseconds. */
  readonly cutMs?: number;
  /** Undoes it. */
  readonly repair?: () => Promise<void>;
}

/** What goes wrong. Each resolves when messages can flow again, and rejects when it did not happen. */
export const FAULTS: Readonly<Record<string, (scene: Scene) => Promise<Aftermath>>> = {
  'device deleted': async ({ client, host, watch }) => {
    await watch();
    const deleted = host.deleteDevice();
    // In this order it also ends when the deletion is refused.
    await Promise.race([onBase(client), deleted.then(() => onBase(client))]);
    return {
      repair: async () => {
        await deleted;
        await host.addDevice();
      },
    };
  },

  'RDMA packets dropped': async ({ client, host, watch }) => {
    await watch();
    await host.dropPackets();
    await onBase(client);
    return { repair: () => host.passPackets() };
  },

  'RDMA cable pulled': async ({ client, watch }) => {
    await watch();
    await cut('cable');
    await onBase(client);
    return { repair: () => restore('cable') };
  },

  'everything cut': async ({ watch, random }) => {
    await watch();
    await cut('cable');
    await cut('lan');
    const from = performance.now();
    await delay(100 + random() * 4900);
    const cutMs = performance.now() - from;
    await restore('lan');
    await restore('cable');
    return { cutMs };
  },

  'TCP reset, messages on RDMA': async ({ host, watch }) => {
    await watch();
    await host.resetTcp();
    return {};
  },

  'TCP reset, messages on TCP': async ({ client, host, watch }) => {
    await host.dropPackets();
    await onBase(client);
    await watch();
    await host.resetTcp();
    return { repair: () => host.passPackets() };
  },
};

/** Those that messages on RDMA must leave it for. */
export const BREAKS_RDMA: ReadonlySet<string> = new Set([
  'device deleted',
  'RDMA packets dropped',
  'RDMA cable pulled',
  'TCP reset, messages on TCP',
]);
