import { memorySetUp } from '../support/transports/memory.js';
import { rpc } from './index.js';

// Transports whose messages are short, as those of RDMA slots: every longer body goes in pieces.
const setUp = memorySetUp();
rpc('short messages', {
  ...setUp,
  createTransport: (options) => setUp.createTransport({ ...options, maxMessageBytes: 4096 }),
});
