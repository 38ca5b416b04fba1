// The end of a test run: a line per stage, the slowest files, flaky and failed tests with their errors, and the total.

const maxErrorLines = 40;
const slowestCount = 10;

/**
 * The sum over all stages. If a stage repeats the tests of another under other conditions (Node 24, no addon, another sanitizer),
 * its failures count, but its tests count only if the other stage did not run.
 */
export function totalOf(results) {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { stage, result } of results) {
    total.failed += result.failed;
    if (isRepeat(stage, results)) continue;
    total.passed += result.passed;
    total.skipped += result.skipped;
  }
  return total;
}

export function summaryLines(results) {
  const total = totalOf(results);
  const all = (key) => results.flatMap(({ result }) => result[key] ?? []);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  return [
    '\n── summary',
    ...results.map((each) => stageLine(each, isRepeat(each.stage, results))),
    ...slowestLines(results),
    ...all('flaky').map(
      ({ title, text }) => `\n⚠ flaky, passed only at the second attempt: ${title}\n${shorten(text)}`,
    ),
    ...all('failures').map(({ title, text }) => `\n✖ ${title}\n${shorten(text)}`),
    ...all('leftovers').map((leftover) => `✖ left behind: ${leftover}`),
    `\n${total.passed} passed, ${total.failed} failed${skipped}`,
  ];
}

function isRepeat({ repeats }, results) {
  return (
    repeats !== undefined && results.some(({ stage, result }) => stage.name === repeats && result.passed > 0)
  );
}

function stageLine({ stage, result, seconds }, isRepeated) {
  const { passed, failed, skipped, flaky = [], reason } = result;
  const numbers = `${passed} passed${isRepeated ? ' again' : ''}, ${failed} failed, ${skipped} skipped`;
  const notes = [reason, flaky.length > 0 ? `${flaky.length} flaky` : undefined].filter(Boolean);
  const note = notes.length === 0 ? '' : `  (${notes.join('; ')})`;
  const mark = failed > 0 ? '✖' : ' ';
  return `${mark} ${stage.name.padEnd(20)} ${seconds.toFixed(1).padStart(6)} s  ${numbers}${note}`;
}

/** Seconds, stage and name of the test files that took longest. */
function slowestLines(results) {
  const files = results.flatMap(({ stage, result }) =>
    (result.files ?? []).map(({ file, seconds }) => ({ stage: stage.name, file, seconds })),
  );
  if (files.length === 0) return [];
  const slowest = files.sort((a, b) => b.seconds - a.seconds).slice(0, slowestCount);
  return [
    '\n── slowest test files',
    ...slowest.map(
      ({ stage, file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${stage.padEnd(20)} ${file}`,
    ),
  ];
}

/** The stage has printed the whole text. In the summary its beginning is enough. */
function shorten(text) {
  const lines = text.split('\n');
  return lines.length <= maxErrorLines ? text : `${lines.slice(0, maxErrorLines).join('\n')}\n  …`;
}
