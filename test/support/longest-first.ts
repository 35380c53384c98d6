import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Test files that take long though they are short, since they run whole suites: the longest of each project. */
const LONG = [
  ...['queue/leftovers', 'rpc/auto', 'pubsub/leftovers', 'bench/bench', 'test/examples'],
  ...['rpc/auto-rdma-simulated', 'rpc/rdma-simulated', 'queue/killed-peers', 'pubsub/killed-peers'],
  ...['conformance/auto-rdma-one-side', 'conformance/auto-rdma-secured', 'conformance/auto-tcp'],
  ...['conformance/rdma-simulated-shared', 'conformance/auto-tls', 'conformance/tls', 'conformance/tcp'],
  ...['native/queue-faults', 'native/any-call-fails', 'native/soak-simulated', 'native/ends-simulated'],
].map((name) => `/${name}.test.ts`);

/**
 * The order of test files: what takes longest begins first, so that no worker has one of them to itself when all others are done.
 * Vitest knows how long they took the last time; in a fresh checkout it goes by the lengths of the files.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const index = LONG.findIndex((name) => moduleId.endsWith(name));
      return index === -1 ? LONG.length : index;
    };
    return (await super.sort(files)).sort((one, other) => place(one) - place(other));
  }
}
