import { describe, expect, it } from 'vitest';
import { checkDocuments } from '../../scripts/check-documents.mjs';
import { makeTree } from './fixture.js';

// Put together here, so that the check of this checkout does not take them for codes that somebody misspelt.
const code = (name: string): string => `ERR_VERBMQ_${name}`;

const section = (name: string, retryable: string): string =>
  `### ${code(name)}\n\nText.\n\n- **Retryable:** ${retryable}, or so.\n`;

const optionTable = (names: string, rows: string): string =>
  `<!-- options: packages/core/src/options.ts ${names} -->\n\n| option | default | what |\n|---|---|---|\n${rows}\n`;

const optionTables = (base: string, send: string): string =>
  `${optionTable('BaseOptions', base)}\n${optionTable('SendOptions without inner', send)}`;

const sound: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({ scripts: { demo: '' } }),
  'packages/core/src/contract/errors.ts': `
    export const ERROR_CODES = ['${code('ONE')}', '${code('TWO')}'] as const;
    const RETRYABLE = new Set<ErrorCode>(['${code('TWO')}']);`,
  'packages/core/src/a.ts': `'${code('ONE')}' '${code('TWO')}'`,
  'packages/core/src/index.ts': `export type { BaseOptions, SendOptions } from './options.js';`,
  'packages/core/src/options.ts': `
export interface BaseOptions {
  /** In bytes. Default 64 MiB. */
  readonly most?: number;
}
/** Of what is sent. */
export interface SendOptions<
  T = unknown,
> extends BaseOptions {
  /**
   * How long it may take, in milliseconds; from 1 to
   * 100,000. Default 10,000.
   */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly inner?: boolean;
}
interface OwnOptions {
  readonly own?: T;
}
`,
  'docs/options.md': optionTables(
    '| `most` | 64 MiB | a |',
    '| `timeoutMs` | 10,000 | b |\n| `signal` | none | c |',
  ),
  'docs/errors.md': `# Errors\n\n${section('ONE', 'no')}\n${section('TWO', 'yes')}`,
  'README.md': [
    '# Title: with `code`!',
    'See [errors](docs/errors.md), [one](docs/errors.md#err_verbmq_one), [top](#title-with-code),',
    '[far](https://example.org/x), and `[no](link.md)`. Run `npm run demo -- x` or `npm test`.',
    '```ts\nconst a = b[0](nothing.md);\n```',
  ].join('\n'),
};

const problemsWith = (files: Record<string, string>): string[] =>
  checkDocuments(makeTree({ ...sound, ...files }));

describe('the check of documents', () => {
  it('finds nothing in a sound tree', () => {
    expect(problemsWith({})).toEqual([]);
  });

  it('finds a code without its section', () => {
    expect(problemsWith({ 'docs/errors.md': section('TWO', 'yes') })).toContain(
      `docs/errors.md: no section for ${code('ONE')}`,
    );
  });

  it('finds a section of no code', () => {
    const text = `${sound['docs/errors.md']}\n${section('THREE', 'no')}`;
    expect(problemsWith({ 'docs/errors.md': text })).toEqual([
      `docs/errors.md: ${code('THREE')} is no code of packages/core/src/contract/errors.ts`,
      `docs/errors.md: ${code('THREE')} is no error code of verbmq`,
    ]);
  });

  it('finds a section that is wrong about retrying, or silent', () => {
    const text = `${section('ONE', 'yes')}\n### ${code('TWO')}\n`;
    expect(problemsWith({ 'docs/errors.md': text, 'README.md': '' })).toEqual([
      `docs/errors.md: ${code('ONE')}: Retryable is no in packages/core/src/contract/errors.ts, yes here`,
      `docs/errors.md: ${code('TWO')}: Retryable is yes in packages/core/src/contract/errors.ts, missing here`,
    ]);
  });

  it('finds a misspelt code in a source', () => {
    expect(problemsWith({ 'packages/native/cpp/verbs/a.cc': `"${code('ONNE')}"` })).toEqual([
      `packages/native/cpp/verbs/a.cc: ${code('ONNE')} is no error code of verbmq`,
    ]);
  });

  it('finds a code that nothing throws', () => {
    expect(problemsWith({ 'packages/core/src/a.ts': `throw new VerbmqError('${code('ONE')}', '')` })).toEqual(
      [`packages/core/src/contract/errors.ts: nothing throws ${code('TWO')}`],
    );
  });

  it('finds options without a row, rows of no option, and other defaults', () => {
    const text = optionTables('| `most`, `least` | 32 MiB | a |', '| `timeoutMs` | 100,000 | b |');
    expect(problemsWith({ 'docs/options.md': text })).toEqual([
      'docs/options.md: BaseOptions: most: packages/core/src/options.ts does not say that its default is 32 MiB',
      'docs/options.md: BaseOptions: there is no option least',
      'docs/options.md: SendOptions: signal is missing',
      'docs/options.md: SendOptions: timeoutMs: packages/core/src/options.ts does not say that its default is 100,000',
    ]);
  });

  it('finds options without a table, and a table of no options', () => {
    const text = optionTable('BaseOptions NoOptions', '| `most` | 64 MiB | a |');
    expect(problemsWith({ 'docs/options.md': text })).toEqual([
      'docs/options.md: BaseOptions, NoOptions: packages/core/src/options.ts has no NoOptions',
      'docs/options.md: no table for SendOptions',
    ]);
  });

  it('finds a reason of a path of which the documents say nothing', () => {
    const files = {
      'packages/core/src/auto/path-info.ts': `export type PathReason = 'policy' | 'broken' | (string & {});`,
      'docs/rdma-setup.md': '| reason | what |\n|---|---|\n| `policy` | a |\n',
    };
    expect(problemsWith(files)).toEqual([
      'docs/rdma-setup.md: no row for the reason broken of packages/core/src/auto/path-info.ts',
    ]);
  });

  it('finds links that lead nowhere', () => {
    expect(problemsWith({ 'docs/a.md': '[a](b.md) [c](errors.md#no-such-heading) [d](#here)' })).toEqual([
      'docs/a.md: nothing is at b.md',
      'docs/a.md: no heading for errors.md#no-such-heading',
      'docs/a.md: no heading for #here',
    ]);
  });

  it('finds npm scripts that do not exist', () => {
    expect(problemsWith({ 'docs/a.md': 'First `npm run build`.' })).toEqual([
      'docs/a.md: package.json has no script build',
    ]);
  });
});
