import { describe, expect, it } from 'vitest';
import { checkDependencyRule } from '../../scripts/check-dependency-rule.mjs';
import { root } from '../../scripts/lib/paths.mjs';
import { makeTree } from './fixture.js';

const manifest = (name: string, extra: object = {}): string => JSON.stringify({ name, ...extra });

/** A workspace that keeps the rule. */
const sound: Readonly<Record<string, string>> = {
  'packages/core/package.json': manifest('@verbmq/core', { dependencies: { msgpackr: '1' } }),
  'packages/core/src/index.ts': "export * from './contract/index.js';\nexport * from './rpc/client.js';\n",
  'packages/core/src/contract/index.ts': "export * from './errors.js';\nimport 'node:fs';\n",
  'packages/core/src/contract/errors.ts': '',
  'packages/core/src/transport-kit/index.ts': "export * from '../contract/errors.js';\n",
  'packages/core/src/rpc/client.ts':
    "import '../contract/index.js';\nimport '../codec/index.js';\nimport 'msgpackr';\n",
  'packages/core/src/codec/index.ts': '',
  'packages/native/package.json': manifest('@verbmq/native', { dependencies: { '@verbmq/core': '*' } }),
  'packages/native/src/index.ts': "import { a } from '@verbmq/core/transport-kit';\n",
  'packages/native/test/any.test.ts': "import '@verbmq/tcp-fallback';\n",
  'packages/native/cpp/verbs/queue_pair.h': '#include <infiniband/verbs.h>\n#include "verbs/memory.h"\n',
  'packages/native/cpp/verbs/memory.h': '#include <infiniband/verbs.h>\n',
  'packages/native/cpp/verbs/error.h': '#include <vector>\n',
  'packages/native/cpp/engine/ring.h': '#include "verbs/queue_pair.h"\n',
  'packages/native/cpp/napi/addon.cc':
    '#include <napi.h>\n#include "engine/ring.h"\n#include "verbs/error.h"\n',
  'packages/tcp-fallback/package.json': manifest('@verbmq/tcp-fallback'),
  'packages/tcp-fallback/src/index.ts': "import '@verbmq/core';\n",
  'packages/verbmq/package.json': manifest('verbmq', {
    dependencies: { '@verbmq/core': '*', '@verbmq/native': '*', '@verbmq/tcp-fallback': '*' },
  }),
  'packages/verbmq/src/index.ts': "import '@verbmq/native';\nexport * from '@verbmq/tcp-fallback';\n",
  'packages/nestjs/package.json': manifest('@verbmq/nestjs'),
  'packages/nestjs/src/index.ts': "import '@verbmq/core';\n",
};

const problemsWith = (files: Record<string, string>): string[] =>
  checkDependencyRule(makeTree({ ...sound, ...files }));

describe('the dependency rule', () => {
  it('is kept by this workspace', () => {
    expect(checkDependencyRule(root)).toEqual([]);
  });

  it('is broken when napi/ sees the verbs headers through other ones', () => {
    expect(problemsWith({ 'packages/native/cpp/verbs/error.h': '#include "memory.h"' })).toEqual([
      'packages/native/cpp/napi/addon.cc:3: napi/ must not include verbs/error.h',
    ]);
  });

  it('is kept by a sound tree', () => {
    expect(problemsWith({})).toEqual([]);
  });

  const violations: [string, string, string, string][] = [
    [
      'core imports a transport',
      'packages/core/src/auto/a.ts',
      "\nimport '@verbmq/native';",
      ':2: @verbmq/core must not import @verbmq/native',
    ],
    [
      'core imports a transport dynamically',
      'packages/core/src/auto/a.ts',
      "await import('@verbmq/tcp-fallback');",
      ':1: @verbmq/core must not import @verbmq/tcp-fallback',
    ],
    [
      'core imports only types of verbmq',
      'packages/core/src/auto/a.ts',
      "import type { A } from 'verbmq';",
      ':1: @verbmq/core must not import verbmq',
    ],
    [
      'a transport imports the other one',
      'packages/native/src/a.ts',
      "export { a } from '@verbmq/tcp-fallback/x';",
      ':1: @verbmq/native must not import @verbmq/tcp-fallback',
    ],
    [
      'a script of a transport imports the other one',
      'packages/native/scripts/a.mjs',
      "import '@verbmq/tcp-fallback';",
      ':1: @verbmq/native must not import @verbmq/tcp-fallback',
    ],
    [
      'a package reaches into another one',
      'packages/tcp-fallback/src/a.ts',
      "import '../../core/src/index.js';",
      ":1: ../../core/src/index.js leaves the package: import by the package's name",
    ],
    [
      'an adapter composes',
      'packages/nestjs/src/a.ts',
      "import 'verbmq';",
      ':1: @verbmq/nestjs must not import verbmq',
    ],
    [
      'a transport depends on the other one',
      'packages/tcp-fallback/package.json',
      manifest('@verbmq/tcp-fallback', { optionalDependencies: { '@verbmq/native': '*' } }),
      ': @verbmq/tcp-fallback must not depend on @verbmq/native (optionalDependencies)',
    ],
    [
      'the contract imports a higher layer',
      'packages/core/src/contract/a.ts',
      "import '../transport-kit/index.js';",
      ':1: contract/ must not import transport-kit/: it does not stand below it',
    ],
    [
      'a pattern imports another one',
      'packages/core/src/pubsub/a.ts',
      "import '../queue/a.js';",
      ':1: pubsub/ must not import queue/: it does not stand below it',
    ],
    [
      'a folder imports the index',
      'packages/core/src/rpc/a.ts',
      "import '../index.js';",
      ':1: ../index.js joins all folders of core: import from the folder that is meant',
    ],
    [
      'verbs/ sees Node-API',
      'packages/native/cpp/verbs/a.cc',
      '#include <napi.h>',
      ':1: verbs/ must not include <napi.h>',
    ],
    [
      'engine/ sees Node-API',
      'packages/native/cpp/engine/a.cc',
      '# include "node_api.h"',
      ':1: engine/ must not include <node_api.h>',
    ],
    [
      'napi/ sees the verbs headers',
      'packages/native/cpp/napi/a.cc',
      '#include <rdma/rdma_cma.h>',
      ':1: napi/ must not include <rdma/rdma_cma.h>',
    ],
    [
      'napi/ sees the verbs objects',
      'packages/native/cpp/napi/a.cc',
      '#include "../verbs/memory.h"',
      ':1: napi/ must not include ../verbs/memory.h',
    ],
    [
      'verbs/ includes the engine',
      'packages/native/cpp/verbs/a.cc',
      '#include "engine/ring.h"',
      ':1: verbs/ must not include engine/ring.h',
    ],
    [
      'engine/ includes napi/',
      'packages/native/cpp/engine/a.cc',
      '#include "../napi/addon.h"',
      ':1: engine/ must not include ../napi/addon.h',
    ],
    [
      'a source has no folder',
      'packages/native/cpp/a.cc',
      '',
      ": only verbs/, engine/, napi/ hold the addon's sources",
    ],
  ];
  it.each(violations)('is broken when %s', (_, path, text, problem) => {
    expect(problemsWith({ [path]: text, 'packages/native/cpp/napi/addon.h': '' })).toEqual([path + problem]);
  });
});
