import { Dealer, Router } from 'zeromq';
import type { EchoContestant } from '../contestants/contestant.js';
import { OrderedCalls } from './ordered-calls.js';

/**
 * zeromq.js, which knows messages and no calls: DEALER and ROUTER, its asynchronous client and server, between which many messages
 * may be on their way; their order says which answer belongs to what. Its documentation has no further advice for speed.
 */
export function zeromq(): EchoContestant {
  let router: Router | undefined;
  return {
    async listen() {
      router = new Router({ linger: 0 });
      await router.bind('tcp://127.0.0.1:*');
      const address = router.lastEndpoint;
      if (address === null) throw new Error('the router has no address');
      void echo(router);
      return { address };
    },

    async connect(address) {
      const dealer = new Dealer({ linger: 0 });
      dealer.connect(address);
      const calls = new OrderedCalls();
      receive(dealer, calls).catch((error: Error) => calls.failed(error));
      return {
        call(data) {
          dealer.send(data).catch((error: Error) => calls.failed(error));
          return calls.answer();
        },
        async close() {
          dealer.close();
        },
      };
    },

    async close() {
      router?.close();
    },
  };
}

async function echo(router: Router): Promise<void> {
  for await (const [sender, message] of router) await router.send([sender!, message!]);
}

async function receive(dealer: Dealer, calls: OrderedCalls): Promise<void> {
  for await (const [message] of dealer) calls.answered(message!);
}
