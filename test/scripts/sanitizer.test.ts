import { describe, expect, it } from 'vitest';
import { faultsOf } from '../../scripts/test/sanitizer.mjs';

const leak = (frame: string): string =>
  `Direct leak of 24 byte(s) in 1 object(s) allocated from:\n    #0 0x7f in operator new(unsigned long)\n    #1 0x7f in ${frame}\n`;

const leaks = (...blocks: string[]): string =>
  `\n=====\n==7==ERROR: LeakSanitizer: detected memory leaks\n\n${blocks.join('\n')}\nSUMMARY: AddressSanitizer: 24 byte(s) leaked\n`;

describe('a report of the sanitizers', () => {
  it('holds a fault of memory against the addon', () => {
    const text = '=====\n==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n    #0 0x7f\n';
    expect(faultsOf(text)).toEqual([text.trim()]);
  });

  it('holds undefined behaviour against the addon', () => {
    const text = '../cpp/engine/ring.cc:7:3: runtime error: signed integer overflow\n';
    expect(faultsOf(text)).toEqual([text.trim()]);
  });

  it('leaves out that memory could not be had', () => {
    const warning = '==7==WARNING: AddressSanitizer failed to allocate 0x1ffffffffff000 bytes\n';
    expect(faultsOf(warning + warning)).toEqual([]);
    expect(faultsOf(`${warning}==7==ERROR: AddressSanitizer: stack-overflow\n`)).toHaveLength(1);
  });

  it('leaves out what Node leaks', () => {
    expect(faultsOf(leaks(leak('node::Start(int, char**) (/usr/bin/node+0x1)')))).toEqual([]);
  });

  it.each(['/usr/bin/node', '/lib/x86_64-linux-gnu/libnode.so.115'])(
    'leaves out what Node leaks while the addon calls it, in %s',
    (program) => {
      const called = leak(`v8::internal::Factory::New (${program}+0x10c)`);
      expect(faultsOf(leaks(`${called}    #2 0x7f in verbmq::loop::call() ../cpp/napi/loop.cc:3\n`))).toEqual(
        [],
      );
    },
  );

  it('holds leaks of the addon against it, each by itself', () => {
    const own = leak('verbmq::ring::ring() ../cpp/engine/ring.cc:12');
    const unknown = leak('(/a/packages/native/build-asan/Release/verbmq.node+0x1)');
    expect(faultsOf(leaks(leak('node::Start'), own, unknown))).toEqual([own.trimEnd(), unknown.trimEnd()]);
  });
});
