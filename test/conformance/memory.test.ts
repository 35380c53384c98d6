import { memorySetUp } from '../support/transports/memory.js';
import { conformance } from './index.js';

conformance('memory', memorySetUp());
