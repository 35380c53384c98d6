import { Dealer, Router } from 'zeromq';
import type { EchoContestant } from '../contestants/contestant.js';

/**
 * zeromq.js, without calls: DEALER and ROUTER, its asynchronous client and server, between which many messages may be on
 * their way; their order says which answer belongs to what. Its documentation has no further advice for speed.
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

    async connect(address, { onAnswer, onError }) {
      const dealer = new Dealer({ linger: 0 });
      dealer.connect(address);
      void receive(dealer, onAnswer).catch(onError);
      return {
        send(data) {
          dealer.send(data).catch(onError);
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

async function receive(dealer: Dealer, onAnswer: (data: Uint8Array) => void): Promise<void> {
  for await (const [message] of dealer) onAnswer(message!);
}
