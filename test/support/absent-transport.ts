import type { ProbeResult } from '@verbmq/core';
import { type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import { onTestFinished } from 'vitest';

/** A transport for fast paths that is not there, until it is. */
export class AbsentTransport extends MemoryTransport {
  present = false;
  probes = 0;

  override async probe(): Promise<ProbeResult<Record<string, never>>> {
    this.probes++;
    return this.present
      ? { available: true, details: {} }
      : { available: false, code: 'no-device', reason: 'there is none', remedy: 'buy one' };
  }
}

/** Two auto transports in one process, of which one has a fast transport that is not there yet. */
export function worldWithout(
  absent: 'client' | 'server',
  options: AutoOptions,
): { readonly late: AbsentTransport; readonly server: AutoTransport; readonly client: AutoTransport } {
  const base = new MemoryNetwork();
  const network = new MemoryNetwork();
  const late = new AbsentTransport({ network });
  const make = (fast: MemoryTransport): AutoTransport => {
    const transport = new AutoTransport({ ...options, base: new MemoryTransport({ network: base }), fast });
    onTestFinished(() => transport.close());
    return transport;
  };
  const other = new MemoryTransport({ network });
  return {
    late,
    server: make(absent === 'server' ? late : other),
    client: make(absent === 'client' ? late : other),
  };
}
