import { readFileSync } from 'node:fs';
import { expect } from 'vitest';

/** A block of code in a document, without its indentation. */
export interface Block {
  readonly language: string;
  readonly code: string;
}

/**
 * Expects the TypeScript of a document to stand in a test, in the same order, before what the test expects of it.
 * @param document its path in the checkout @param testUrl the test's `import.meta.url` @param least how many blocks there are at least
 * @returns the blocks in other languages
 */
export function expectShown(document: string, testUrl: string, least: number): Block[] {
  const here = flat(readFileSync(new URL(testUrl), 'utf8'));
  const text = readFileSync(new URL(`../../${document}`, import.meta.url), 'utf8');
  const blocks = [...text.matchAll(/^\s*(```+|~~~+)(.*)\n([\s\S]*?)^\s*\1\s*$/gm)].map(
    ([, , language, code]) => ({ language: language as string, code: flat(code as string) }),
  );
  const snippets = blocks.filter(({ language }) => language === 'ts');
  expect(snippets.length).toBeGreaterThanOrEqual(least);
  let at = 0;
  for (const { code } of snippets) {
    const found = here.indexOf(code, at);
    expect(found, `the snippet stands here, behind those before it:\n${code}`).toBeGreaterThanOrEqual(at);
    at = found + code.length;
  }
  expect(at).toBeLessThan(here.indexOf('expect(printed)'));
  return blocks.filter(({ language }) => language !== 'ts');
}

const flat = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n');
