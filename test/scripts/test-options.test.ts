import { describe, expect, it } from 'vitest';
import { parseOptions } from '../../scripts/test/options.mjs';
import { groupParts, type Part, sanitizersFollow, selectParts } from '../../scripts/test/parts.mjs';
import { asksForAll } from '../../scripts/test/scope.mjs';

const names = ['lint', 'types'];

describe('the options of npm test', () => {
  it('choose parts', () => {
    expect(parseOptions(['--only', 'lint', '--only=types'], names, {})).toEqual({
      only: ['lint', 'types'],
      requireGuest: false,
    });
    expect(parseOptions(['--only', 'lint,types'], names, {})).toMatchObject({ only: ['lint', 'types'] });
  });

  it('require the guest on demand and in CI', () => {
    expect(parseOptions(['--require-guest'], names, {})).toEqual({ only: undefined, requireGuest: true });
    expect(parseOptions([], names, { CI: 'true' })).toEqual({ only: undefined, requireGuest: true });
  });

  it('are refused when they are wrong', () => {
    expect(parseOptions(['--only', 'lnt'], names, {})).toBe('there is no part "lnt"');
    expect(parseOptions(['--only'], names, {})).toBe('there is no part ""');
    expect(parseOptions(['--fast'], names, {})).toBe('unknown argument --fast');
  });
});

describe('how much is run', () => {
  it('is all of it on demand, and what is asked for is not misunderstood', () => {
    expect(asksForAll({})).toBe(false);
    expect(asksForAll({ VERBMQ_TEST: 'full' })).toBe(true);
    expect(() => asksForAll({ VERBMQ_TEST: 'ful' })).toThrow('VERBMQ_TEST is "ful"');
  });
});

describe('the parts that are run', () => {
  const part = (name: string, extra: Partial<Part> = {}): Part => ({
    name,
    title: name,
    run: async () => [],
    ...extra,
  });
  const all = [
    part('bootstrap', { prepares: 'all' }),
    part('guest-bootstrap', { prepares: 'guest' }),
    part('lint'),
    part('rxe', { inGuest: true }),
  ];
  const selected = (only: string[] | undefined): string[] => selectParts(all, only).map(({ name }) => name);

  it('are all, unless some are chosen', () => {
    expect(selected(undefined)).toEqual(['bootstrap', 'guest-bootstrap', 'lint', 'rxe']);
  });

  it('are not those that others stand in for, unless they are named', () => {
    const some = [...all, part('no-device', { inGuest: true, onDemand: true })];
    expect(selectParts(some, undefined)).toEqual(all);
    expect(selectParts(some, ['no-device']).map(({ name }) => name)).toEqual([
      'bootstrap',
      'guest-bootstrap',
      'no-device',
    ]);
  });

  it('bring those that prepare for them', () => {
    expect(selected(['lint'])).toEqual(['bootstrap', 'lint']);
    expect(selected(['rxe'])).toEqual(['bootstrap', 'guest-bootstrap', 'rxe']);
  });

  it('leave to sanitizers what these repeat, where they can run', () => {
    const names = ['native', 'asan'];
    expect(sanitizersFollow({ names, noGuestBecause: undefined })).toBe(true);
    expect(sanitizersFollow({ names, noGuestBecause: 'no compiler' })).toBe(false);
    expect(sanitizersFollow({ names: ['native'], noGuestBecause: undefined })).toBe(false);
  });

  it('run together only where neighbours are patient', () => {
    const some = [
      part('a', { patient: true }),
      part('b'),
      part('c', { patient: true }),
      part('d', { patient: true }),
    ];
    expect(groupParts(some).map((group) => group.map(({ name }) => name))).toEqual([
      ['a'],
      ['b'],
      ['c', 'd'],
    ]);
  });

  it('never run together with what prepares for them', () => {
    const some = [
      part('guest-bootstrap', { prepares: 'guest', patient: true }),
      part('lint', { patient: true }),
      part('rxe', { inGuest: true, patient: true }),
      part('siw', { inGuest: true, patient: true }),
    ];
    expect(groupParts(some).map((group) => group.map(({ name }) => name))).toEqual([
      ['guest-bootstrap', 'lint'],
      ['rxe', 'siw'],
    ]);
  });
});
