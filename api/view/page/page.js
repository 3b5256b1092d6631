'use strict';
(() => {
// -- The data. A time of -1 means that the command did not begin or did not end. --
const data = JSON.parse(document.getElementById('data').textContent);
const KINDS = ['GEMM', 'copy', 'sum, pointwise', 'signal', 'wait for a peer', 'record', 'wait for a stream', 'message'];
const AWAIT = 4, RECORD = 5, WAIT_EVENT = 6, LABELS = 110;
const $ = id => document.getElementById(id);
const ranks = data.ranks.map(({number, streams, commands}) => ({
  number, streams,
  commands: commands.map(([kind, stream, line, run, peer, bytes, trips, causeRank, cause]) => (
    {kind, stream, line, run, peer, bytes, trips, cause: causeRank < 0 ? null : [causeRank, cause]})),
}));
const timings = data.timings;
/// A reference to a command is an array [rank, command].
const commandOf = ([rank, command]) => ranks[rank].commands[command];
const spanOf = (timing, [rank, command]) => timing.spans[rank].slice(2 * command, 2 * command + 2);
const isShown = ref => commandOf(ref).kind !== RECORD;
const allRefs = ranks.flatMap(({commands}, r) => commands.map((_, i) => [r, i])).filter(isShown);

// -- Formatting. --
const time = x => {
  if (data.unit !== 'µs') return Math.round(x) + ' ' + data.unit + (Math.round(x) === 1 ? '' : 's');
  return x >= 1e4 ? (x / 1e3).toFixed(1) + ' ms' : x.toFixed(x < 10 ? 2 : 1) + ' µs';
};
const size = n => n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1) + ' MiB' : n >= 1024 ? (n / 1024).toFixed(1) + ' KiB' : n + ' B';
const lineText = line => line > 0 ? data.text[line - 1].trim() : '';
const streamName = (rank, stream) => rank.streams[stream] || 'stream ' + stream;

/// Describes a command: its line, kind and stream, its times, and the command that it waits for.
const describe = ref => {
  const command = commandOf(ref), rank = ranks[ref[0]];
  const said = [lineText(command.line), KINDS[command.kind] + ', rank ' + rank.number + ', ' + streamName(rank, command.stream)
    + (command.trips ? ', trip ' + command.trips : '') + (command.run > 1 ? ', run ' + command.run : '')];
  for (const timing of timings) {
    const [begin, end] = spanOf(timing, ref);
    if (begin < 0) said.push(timing.name + ': does not begin');
    else if (end < 0) said.push(timing.name + ': began at ' + time(begin) + ' and never ends');
    else said.push(timing.name + ': ' + time(end - begin) + ', from ' + time(begin) + ' to ' + time(end));
  }
  if (command.bytes) said.push('writes ' + size(command.bytes));
  if (command.peer >= 0) said.push('with rank ' + command.peer);
  if (command.cause) {
    const cause = commandOf(command.cause), from = ranks[command.cause[0]];
    said.push('waits for the ' + KINDS[cause.kind] + ' of rank ' + from.number + ', ' + streamName(from, cause.stream)
      + (cause.line ? ', line ' + cause.line + ': ' + lineText(cause.line) : ''));
  }
  return said.join('\n');
};

// -- The text and the lanes. --
const add = (parent, tag, properties = {}, style = {}) => {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  Object.assign(element.style, style);
  parent.append(element);
  return element;
};
data.text.forEach((content, i) => {
  const element = add($('text'), 'div');
  add(element, 'b', {textContent: i + 1});
  element.append(content || ' ');
  element.dataset.line = i + 1;
});

const extent = 1.02 * Math.max(1e-6, ...timings.map(timing =>
  timing.spans.reduce((most, spans) => spans.reduce((a, b) => Math.max(a, b), most), timing.total)));
const percent = t => 100 * t / extent + '%';
const endOf = end => end < 0 ? extent : end; // commands that never end extend to the right edge

/// One lane for each stream that has commands. Lanes are numbered across all ranks.
const laneOf = ranks.map(() => new Map());
let rowCount = 0;
ranks.forEach((rank, r) => {
  const streams = new Set(rank.commands.filter(({kind}) => kind !== RECORD).map(({stream}) => stream));
  for (const stream of [...streams].sort((a, b) => a - b)) {
    const row = add($('rows'), 'div', {className: 'row'}, {height: timings.length > 1 ? '30px' : '22px'});
    add(row, 'b', {textContent: 'rank ' + rank.number + ' ' + streamName(rank, stream)});
    laneOf[r].set(stream, {number: rowCount++, element: add(row, 'div', {className: 'lane'})});
  }
});
const lane = ref => laneOf[ref[0]].get(commandOf(ref).stream);
/// Returns the vertical position of a command, in rows. The timings share each row.
const yOf = (ref, t, fraction = .5) => lane(ref).number + (t + fraction) / timings.length;

for (const ref of allRefs)
  timings.forEach((timing, t) => {
    const [begin, end] = spanOf(timing, ref), {kind, line} = commandOf(ref);
    if (begin < 0) return;
    const bar = add(lane(ref).element, 'i', {className: kind === AWAIT || kind === WAIT_EVENT ? 'thin' : ''}, {
      left: percent(begin), width: percent(endOf(end) - begin),
      top: 100 * t / timings.length + '%', height: 100 / timings.length + '%',
      background: `var(--${end < 0 ? 'bad' : 'k' + kind})`,
    });
    Object.assign(bar.dataset, {line, ref});
  });

/// Draws a line along the critical path, thin where no command runs.
const setLine = (id, line) => $(id).setAttribute('d', line);
$('lines').setAttribute('viewBox', `0 0 ${extent} ${rowCount || 1}`);
let gaps = '', path = '';
timings.forEach((timing, t) => timing.path.filter(isShown).forEach(([rank, command, what, begin, took], n) => {
  const y = yOf([rank, command], t, .9);
  gaps += `${n ? 'L' : 'M'}${begin} ${y}H${begin + took}`;
  if (what !== timing.gap) path += `M${begin} ${y}H${begin + took}`;
}));
setLine('gaps', gaps);
setLine('path', path);

// -- Selection. --
let chosen = null, line = 0;
const give = (name, selector) => {
  for (const element of document.querySelectorAll('.' + name)) element.classList.remove(name);
  if (selector) for (const element of document.querySelectorAll(selector)) element.classList.add(name);
};
const ofLine = number => number > 0 ? `[data-line="${number}"]` : '';
/// Describes a command. For a wait, also draws a line to it from the command that it waits for.
const tell = ref => {
  $('told').textContent = ref ? describe(ref) : '';
  const cause = ref && commandOf(ref).cause;
  setLine('cause', !cause || !isShown(cause) ? '' : timings.map((timing, t) => {
    const given = spanOf(timing, cause)[1], [begin, end] = spanOf(timing, ref);
    return given < 0 || begin < 0 ? '' : `M${given} ${yOf(cause, t)}L${end < 0 ? begin : end} ${yOf(ref, t)}`;
  }).join(''));
};
const show = element => element?.scrollIntoView({block: 'nearest', inline: 'nearest'});
const choose = (number, ref = null) => {
  [line, chosen] = [number, ref];
  give('chosen', ofLine(number));
  give('picked', ref && `[data-ref="${ref}"]`);
  tell(ref);
  show(document.querySelector('#text .chosen'));
  show(document.querySelector('.picked'));
};
const chooseCommand = ref => choose(commandOf(ref).line, ref);
/// Selects the command in `refs` after (`by` = 1) or before (`by` = -1) the selected command.
const step = (refs, by) => {
  const at = refs.findIndex(ref => String(ref) === String(chosen));
  if (refs.length) chooseCommand(refs[at < 0 ? (by > 0 ? 0 : refs.length - 1) : (at + by + refs.length) % refs.length]);
};
const stepLine = by => step(line ? allRefs.filter(ref => commandOf(ref).line === line) : [], by);
const stepPath = () => step(timings[0].path.filter(([rank, command, what]) =>
  what !== timings[0].gap && isShown([rank, command])).map(([rank, command]) => [rank, command]), 1);
const found = event => {
  const {line, ref} = event.target.closest?.('[data-line]')?.dataset ?? {};
  return [Number(line || 0), ref ? ref.split(',').map(Number) : null];
};
$('board').addEventListener('pointerover', event => {
  const [number, ref] = found(event);
  give('lit', ofLine(number));
  tell(ref || chosen);
  if (ref) show(document.querySelector('#text .lit'));
});
$('board').addEventListener('pointerleave', () => { give('lit'); tell(chosen); });
$('board').addEventListener('click', event => choose(...found(event)));

// -- Zooming. The chart may be wider than the frame in which it scrolls. --
const lanes = $('lanes'), chart = $('chart');
const drawAxis = () => {
  const unit = extent / (chart.clientWidth - LABELS), from = lanes.scrollLeft * unit, room = 90 * unit;
  let step = 10 ** Math.ceil(Math.log10(room));
  for (const fraction of [.2, .5]) if (step * fraction >= room) { step *= fraction; break; }
  if (data.unit !== 'µs') step = Math.max(1, Math.round(step));
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step))));
  $('axis').textContent = '';
  for (let t = Math.ceil(from / step) * step; t <= Math.min(extent, from + lanes.clientWidth * unit); t += step)
    add($('axis'), 'span', {textContent: t.toFixed(digits) + (t === 0 ? ' ' + data.unit : '')}, {left: LABELS + t / unit + 'px'});
};
let zoomed = 1;
const zoom = (factor, x = lanes.clientWidth / 2) => {
  const t = (lanes.scrollLeft + x - LABELS) / (chart.clientWidth - LABELS);
  zoomed = Math.max(1, Math.min(1e4, zoomed * factor));
  chart.style.width = 100 * zoomed + '%';
  lanes.scrollLeft = t * (chart.clientWidth - LABELS) + LABELS - x;
  drawAxis();
};
lanes.addEventListener('scroll', drawAxis);
lanes.addEventListener('wheel', event => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * .003), event.clientX - lanes.getBoundingClientRect().left);
}, {passive: false});
addEventListener('resize', drawAxis);
drawAxis();
const KEYS = {
  '+': () => zoom(1.4), '=': () => zoom(1.4), '-': () => zoom(1 / 1.4), 0: () => zoom(0),
  n: () => stepLine(1), p: () => stepLine(-1), c: stepPath, Escape: () => choose(0),
};
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

// -- The legend and the marks. --
const explain = (colour, words) => {
  const item = add($('legend'), 'li');
  add(item, 'i', {}, {background: `var(--${colour})`});
  item.append(words);
};
const used = new Set(allRefs.map(ref => commandOf(ref).kind));
KINDS.forEach((name, kind) => { if (used.has(kind)) explain('k' + kind, name); });
if (data.failure) explain('bad', 'never ends');
const withPath = timings.find(timing => timing.path.length);
if (withPath) explain('path', 'critical path (thin line: ' + withPath.gap + ')');
if (timings.length > 1) explain('lane', timings.map(timing => timing.name).join(' over '));

/// Draws a number where each marked command begins. Dashed lines connect linked marks.
const places = [];
const chooseMark = ([rank, command, , line]) => rank >= 0 ? chooseCommand([rank, command]) : choose(line);
data.marks.forEach((mark, i) => {
  const [rank, command, text, line] = mark, item = add($('marks'), 'li');
  add(item, 'button', {textContent: i + 1, onclick: () => chooseMark(mark)});
  item.append(text);
  if (line) document.querySelector('#text ' + ofLine(line)).classList.add('marked');
  if (rank < 0 || !isShown([rank, command])) return;
  const ref = [rank, command], [begin] = spanOf(timings[0], ref);
  if (begin < 0) return;
  const number = add(lane(ref).element, 'button', {textContent: i + 1, tabIndex: -1}, {left: percent(begin)});
  Object.assign(number.dataset, {line: commandOf(ref).line, ref});
  places.push(`${begin} ${yOf(ref, 0)}`);
});
if (data.linked && places.length === data.marks.length) setLine('links', 'M' + places.join('L') + 'Z');
const first = data.marks.find(([rank, , , line]) => rank >= 0 || line > 0);
if (data.failure && first) chooseMark(first);
})();
