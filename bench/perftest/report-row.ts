/** The one row of figures in what a perftest tool prints, by the headings of its columns. */
export class ReportRow {
  readonly #tool: string;
  readonly #output: string;
  readonly #columns: readonly string[];
  readonly #values: readonly number[];

  /** @throws Error when there is no report in the text. */
  constructor(tool: string, output: string) {
    this.#tool = tool;
    this.#output = output.trim();
    const lines = output.split('\n');
    const header = lines.findIndex((line) => line.trimStart().startsWith('#bytes'));
    if (header < 0) throw new Error(`${tool} printed no report:\n${this.#output}`);
    // Some headings are two words.
    this.#columns = (lines[header] ?? '').trim().split(/\s+(?!percentile|peak|average)/);
    this.#values = (lines[header + 1] ?? '').trim().split(/\s+/).map(Number);
  }

  /** @throws Error when the report has no such column, or no number in it. */
  column(name: string): number {
    const value = this.#values[this.#columns.indexOf(name)];
    if (value === undefined || !Number.isFinite(value)) {
      throw new Error(`${this.#tool}'s report has no ${name}:\n${this.#output}`);
    }
    return value;
  }
}
