/**
 * `npm run demo`: the same echo service and client over each transport that is here, and one table.
 * Exits with 1 when a transport that is here failed.
 */

import { renderDemo } from './demo/render.js';
import { DEMO_STEPS, runDemo } from './demo/rows.js';
import { Progress } from './report/progress.js';
import { styler } from './report/style.js';

const progress = new Progress(process.stderr, DEMO_STEPS);
const results = await runDemo(progress);
progress.done();
console.log(renderDemo(results, styler(process.stdout)));
if (results.some(({ outcome }) => outcome.kind === 'failed')) process.exitCode = 1;
