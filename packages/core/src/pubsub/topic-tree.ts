/** The longest topic or pattern in characters, and the most words in it. */
const MAX_TOPIC_LENGTH = 255;
const MAX_WORDS = 32;

const ANY_WORD = '*';
const ANY_WORDS = '#';

class Node<T> {
  readonly children = new Map<string, Node<T>>();
  readonly values = new Set<T>();
  /** It stands for any number of words: once reached, it is reached again by each word. */
  readonly anyWords: boolean;

  constructor(anyWords: boolean) {
    this.anyWords = anyWords;
  }
}

/**
 * Patterns as a tree of their words, so that finding those that match a topic takes as many steps as the topic has words,
 * however many patterns there are. Words are joined by dots; `*` stands for any one word, `#` for any number of words, none included.
 */
export class TopicTree<T> {
  readonly #root = new Node<T>(false);
  #size = 0;
  #visits = 0;

  /** How many values there are. */
  get size(): number {
    return this.#size;
  }

  /** How many places in the tree all matches so far have looked at, and values they have found. */
  get visits(): number {
    return this.#visits;
  }

  /** @throws TypeError for what is no pattern. */
  add(pattern: string, value: T): void {
    let node = this.#root;
    for (const word of patternWords(pattern)) {
      let child = node.children.get(word);
      if (child === undefined) {
        child = new Node<T>(word === ANY_WORDS);
        node.children.set(word, child);
      }
      node = child;
    }
    if (!node.values.has(value)) this.#size++;
    node.values.add(value);
  }

  delete(pattern: string, value: T): void {
    const path: [Node<T>, string][] = [];
    let node = this.#root;
    for (const word of patternWords(pattern)) {
      const child = node.children.get(word);
      if (child === undefined) return;
      path.push([node, word]);
      node = child;
    }
    if (node.values.delete(value)) this.#size--;
    for (const [parent, word] of path.reverse()) {
      const child = parent.children.get(word) as Node<T>;
      if (child.values.size > 0 || child.children.size > 0) return;
      parent.children.delete(word);
    }
  }

  /**
   * The values whose patterns match, each once.
   * @throws TypeError for what is no topic.
   */
  match(topic: string): Set<T> {
    // All places in the tree that the words so far lead to: patterns with many `#` cost no more than their nodes.
    let reached = withAnyWords(new Set([this.#root]));
    for (const word of topicWords(topic)) {
      const next = new Set<Node<T>>();
      for (const node of reached) {
        this.#visits++;
        if (node.anyWords) next.add(node);
        const exact = node.children.get(word);
        if (exact !== undefined) next.add(exact);
        const any = node.children.get(ANY_WORD);
        if (any !== undefined) next.add(any);
      }
      reached = withAnyWords(next);
      if (reached.size === 0) break;
    }
    const values = new Set<T>();
    for (const node of reached) for (const value of node.values) values.add(value);
    this.#visits += reached.size + values.size;
    return values;
  }
}

/** A `#` matches no word as well: what follows it is reached at once. */
function withAnyWords<T>(nodes: Set<Node<T>>): Set<Node<T>> {
  for (const node of nodes) {
    const child = node.children.get(ANY_WORDS);
    if (child !== undefined) nodes.add(child); // and is visited in its turn
  }
  return nodes;
}

/** @throws TypeError for what is no topic. */
export function checkTopic(topic: unknown): void {
  topicWords(topic);
}

/** @throws TypeError for what is no pattern. */
export function checkPattern(pattern: unknown): void {
  wordsOf(pattern, 'pattern');
}

function topicWords(topic: unknown): string[] {
  const words = wordsOf(topic, 'topic');
  if (words.includes(ANY_WORD) || words.includes(ANY_WORDS)) {
    throw new TypeError(`a topic has no wildcards, unlike ${JSON.stringify(topic)}`);
  }
  return words;
}

/**
 * Of wildcards that follow each other only their number counts, and whether there is a `#`, which goes last: so they lead to few
 * places, in however many ways they are written.
 */
function patternWords(pattern: string): string[] {
  const words: string[] = [];
  let anyWords = false;
  for (const word of wordsOf(pattern, 'pattern')) {
    if (word === ANY_WORDS) {
      anyWords = true;
      continue;
    }
    if (anyWords && word !== ANY_WORD) {
      words.push(ANY_WORDS);
      anyWords = false;
    }
    words.push(word);
  }
  if (anyWords) words.push(ANY_WORDS);
  return words;
}

function wordsOf(text: unknown, what: 'topic' | 'pattern'): string[] {
  if (typeof text !== 'string' || text === '' || text.length > MAX_TOPIC_LENGTH) {
    throw new TypeError(`a ${what} is a string of 1 to ${MAX_TOPIC_LENGTH} characters`);
  }
  const words = text.split('.');
  if (words.length > MAX_WORDS) throw new TypeError(`a ${what} has ${MAX_WORDS} words at most`);
  return words;
}
