import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

/** Puts a colour or weight around a text. */
export type Style = (format: Format, text: string) => string;

/** Colours for a terminal that wants them (https://no-color.org); plain text for everything else. */
export function styler(stream: NodeJS.WriteStream): Style {
  const noColor = process.env.NO_COLOR !== undefined && process.env.NO_COLOR !== '';
  const coloured = stream.isTTY === true && !noColor && process.env.TERM !== 'dumb';
  return (format, text) => (coloured ? styleText(format, text) : text);
}
