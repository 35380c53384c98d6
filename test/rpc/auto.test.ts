import { autoOverMemorySetUp } from '../support/transports/auto.js';
import { rpc } from './index.js';

rpc('auto on its fast path', autoOverMemorySetUp('both'));
rpc('auto', autoOverMemorySetUp('none'));
