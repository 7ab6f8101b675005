// The keys of the bench's S3 server in their order, for listings by pages. They are put in order when they are asked for:
// most of them come all at once. What is deleted only leaves a gap, for a client may list and delete in turn.

/** Of ASCII alone: there the order of strings is that of S3, by bytes. */
export function newKeys() {
  const there = new Set();
  let ordered = [];
  let isOrdered = true;
  return {
    add: (key) => {
      if (!there.has(key)) isOrdered = false;
      there.add(key);
    },
    delete: (key) => there.delete(key),
    clear: () => {
      there.clear();
      ordered = [];
    },
    /** The first one that begins with `prefix` and comes after `last`; after all that begin with it if it is a folder. */
    first: (prefix, last = '', isFolder = false) => {
      if (!isOrdered) ordered = [...there].toSorted((a, b) => (a < b ? -1 : 1));
      isOrdered = true;
      const from = last === '' ? '' : isFolder ? `${last}\uFFFF` : `${last}\0`;
      let at = placeOf(ordered, from > prefix ? from : prefix);
      while (at < ordered.length && !there.has(ordered[at])) at += 1;
      return ordered[at]?.startsWith(prefix) ? ordered[at] : undefined;
    },
  };
}

/** Of the first key that is not below `key`. */
function placeOf(ordered, key) {
  let [low, high] = [0, ordered.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
