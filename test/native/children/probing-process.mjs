// A process that probes, with nothing else to live for. Its arguments: the library of a simulated device, what controls it, and how it ends:
//
//   wait   it waits for a driver that takes longer than the process would last without that
//   close  it closes the transport while the driver has an hour left
//   exit   it calls process.exit(0) then
//
// Says what came of the probe.
import { createRequire } from 'node:module';
import { RdmaTransport } from '@verbmq/native';

const [library, control, how] = process.argv.slice(2);
const { call } = createRequire(import.meta.url)(control);
call(library, 'reset', 'rxe');
call(library, 'set', 'open_blocks_us', how === 'wait' ? 50_000 : 3_600_000_000);
const transport = new RdmaTransport({ libraries: { ibverbs: library, rdmacm: library } });
const probing = transport.probe();
if (how !== 'wait') {
  while (call(library, 'calls', 'ibv_open_device') < 1) await new Promise(setImmediate);
  if (how === 'exit') process.exit(0);
  await transport.close();
}
const { available, code } = await probing;
console.log(available ? 'available' : code);
