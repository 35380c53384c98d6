import type { RatioDefinition } from './ratios.js';
import type { Placement } from './run/placement.js';
import { type ContestantName, METRICS, type Sample } from './scenarios.js';
import { best, median } from './statistics.js';

/** What a ratio is made of, with the processes in one place: the figures of each contestant, by round. */
export class Figures {
  readonly #definition: RatioDefinition;
  readonly #byContestant = new Map<ContestantName, Map<number, number>>();

  static of(definition: RatioDefinition, samples: readonly Sample[], placement: Placement): Figures {
    const { scenario, metric } = definition;
    const figures = new Figures(definition);
    for (const sample of samples) {
      const value = sample.measures[metric];
      if (sample.scenario !== scenario || sample.placement !== placement || value === undefined) continue;
      const rounds = figures.#byContestant.get(sample.contestant) ?? new Map<number, number>();
      figures.#byContestant.set(sample.contestant, rounds.set(sample.round, value));
    }
    return figures;
  }

  private constructor(definition: RatioDefinition) {
    this.#definition = definition;
  }

  has(contestant: ContestantName): boolean {
    return this.#byContestant.has(contestant);
  }

  /**
   * The ratio, what was divided by, and the ratio within each round that has both. `undefined` when a side was not measured;
   * of several to divide by, one is enough.
   */
  ratio(): { value: number; to: ContestantName | undefined; rounds: number[] } | undefined {
    const { of, to } = this.#definition;
    const value = this.#picked(of);
    if (value === undefined) return undefined;
    if (to.length === 0) return { value, to: undefined, rounds: [...this.#rounds(of).values()] };
    const divisor = this.#bestOf(to);
    if (divisor === undefined) return undefined;
    const divisors = this.#rounds(divisor.contestant);
    const rounds = [...this.#rounds(of)].flatMap(([round, dividend]) => {
      const other = divisors.get(round);
      return other === undefined ? [] : [dividend / other];
    });
    return { value: value / divisor.value, to: divisor.contestant, rounds };
  }

  #bestOf(names: readonly ContestantName[]): { contestant: ContestantName; value: number } | undefined {
    const better = METRICS[this.#definition.metric];
    let leader: { contestant: ContestantName; value: number } | undefined;
    for (const contestant of names) {
      const value = this.#picked(contestant);
      if (value === undefined) continue;
      if (leader === undefined || best([value, leader.value], better) === value)
        leader = { contestant, value };
    }
    return leader;
  }

  #picked(contestant: ContestantName): number | undefined {
    if (!this.has(contestant)) return undefined;
    const values = [...this.#rounds(contestant).values()];
    const { pick, metric } = this.#definition;
    return pick === 'best' ? best(values, METRICS[metric]) : median(values);
  }

  #rounds(contestant: ContestantName): ReadonlyMap<number, number> {
    return this.#byContestant.get(contestant) ?? new Map();
  }
}
