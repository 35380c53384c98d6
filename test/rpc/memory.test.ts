import { memorySetUp } from '../support/transports/memory.js';
import { rpc } from './index.js';

rpc('memory', memorySetUp());
