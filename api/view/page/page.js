'use strict';
(() => {
// -- The data. A time of -1: the command did not begin, or did not end. --
const data = JSON.parse(document.getElementById('data').textContent);
const KINDS = ['GEMM', 'copy', 'sum, pointwise', 'signal', 'wait for a peer', 'record', 'wait for a stream', 'message'];
const AWAIT = 4, RECORD = 5, WAIT_EVENT = 6;
const $ = id => document.getElementById(id);
const isWait = kind => kind === AWAIT || kind === WAIT_EVENT;
const ranks = data.ranks.map(({number, streams, commands}) => ({
  number, streams,
  commands: commands.map(([kind, stream, line, run, peer, bytes, trips, causeRank, cause]) => (
    {kind, stream, line, run, peer, bytes, trips, cause: causeRank < 0 ? null : [causeRank, cause]})),
}));
const timings = data.timings;
const commandOf = ([rank, command]) => ranks[rank].commands[command];
const spanOf = (timing, [rank, command]) => timing.spans[rank].slice(2 * command, 2 * command + 2);
const same = (a, b) => String(a) === String(b);

/// One row for each stream with commands; a reference is [rank, command].
const rows = [], rowOf = ranks.map(() => new Map()), ofLine = new Map();
ranks.forEach((rank, r) => {
  rank.commands.forEach((command, i) => {
    if (command.kind === RECORD) return;
    if (!rowOf[r].has(command.stream)) rowOf[r].set(command.stream, []);
    rowOf[r].get(command.stream).push([r, i]);
    if (!ofLine.has(command.line)) ofLine.set(command.line, []);
    ofLine.get(command.line).push([r, i]);
  });
  for (const stream of [...rowOf[r].keys()].sort((a, b) => a - b)) {
    rows.push({rank, stream, refs: rowOf[r].get(stream)});
    rowOf[r].set(stream, rows.length - 1);
  }
});

// -- Words. --
const time = x => {
  if (data.unit !== 'µs') return Math.round(x) + ' ' + data.unit + (Math.round(x) === 1 ? '' : 's');
  return x >= 1e4 ? (x / 1e3).toFixed(1) + ' ms' : x.toFixed(x < 10 ? 2 : 1) + ' µs';
};
const size = n => n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1) + ' MiB' : n >= 1024 ? (n / 1024).toFixed(1) + ' KiB' : n + ' B';
const lineText = line => line > 0 ? data.text[line - 1].trim() : '';
const streamName = (rank, stream) => rank.streams[stream] || 'stream ' + stream;

/// Sentences about a command: what, where, when, and why it waits.
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
  return said;
};

// -- The text. --
const lines = data.text.map((content, i) => {
  const element = document.createElement('div'), number = document.createElement('b');
  number.textContent = i + 1;
  element.append(number, content || ' ');
  element.dataset.line = i + 1;
  $('text').append(element);
  return element;
});

// -- What is chosen, and which part of the time is shown. --
const state = {from: 0, to: 1, line: 0, hoverLine: 0, command: null, hover: null, pathAt: -1};
const extent = Math.max(1e-6, ...timings.map(timing =>
  timing.spans.reduce((most, spans) => spans.reduce((a, b) => Math.max(a, b), most), timing.total)));

// -- Drawing. --
const LABELS = 110, AXIS = 20, MOST_HEIGHT = 12000;
const canvas = $('canvas'), lanes = $('lanes'), context = canvas.getContext('2d'), axis = $('axis').getContext('2d');
let width = 0, height = 0, rowHeight = 16, colours = {};
const layOut = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ink', 'soft', 'lane', 'paper', 'pickline', 'path', 'bad', ...KINDS.map((_, i) => 'k' + i)])
    colours[name] = style.getPropertyValue('--' + name).trim();
  const ratio = devicePixelRatio || 1;
  rowHeight = Math.min(timings.length > 1 ? 30 : 22, Math.max(4, MOST_HEIGHT / Math.max(1, rows.length)));
  width = lanes.clientWidth;
  height = rows.length * rowHeight + 8;
  for (const [element, h] of [[canvas, height], [$('axis'), AXIS]]) {
    element.width = width * ratio;
    element.height = h * ratio;
    element.style.width = width + 'px';
    element.style.height = h + 'px';
    element.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
  }
};
const xOf = t => LABELS + (t - state.from) / (state.to - state.from) * (width - LABELS);
const tOf = x => state.from + (x - LABELS) / (width - LABELS) * (state.to - state.from);
const endOf = end => end < 0 ? extent * 1.02 : end; // what never ends goes on to the end of the page
const part = () => (rowHeight - 2) / timings.length; // each timing has a part of a row
/// The middle of a command's part of its row.
const yOf = (ref, t) => rowOf[ref[0]].get(commandOf(ref).stream) * rowHeight + part() * (t + .5);

const drawCommand = (ref, timing, y, h) => {
  const [begin, end] = spanOf(timing, ref), {kind, line} = commandOf(ref);
  const chosen = state.line || state.hoverLine;
  if (begin < 0 || begin > state.to || endOf(end) < state.from) return;
  const x = Math.max(xOf(begin), LABELS), w = Math.max(xOf(endOf(end)) - x, .75);
  const isThin = isWait(kind);
  context.globalAlpha = (chosen && line !== chosen ? .35 : 1) * (end < 0 ? .6 : 1);
  context.fillStyle = end < 0 ? colours.bad : colours['k' + kind];
  context.fillRect(x, y + (isThin ? h * .25 : 0), Math.max(w - (w > 3 ? .5 : 0), .75), isThin ? h * .5 : h);
  if (!same(ref, state.command) && (!chosen || line !== chosen)) return;
  context.strokeStyle = same(ref, state.command) ? colours.ink : colours.pickline;
  context.lineWidth = 2;
  context.strokeRect(x, y, Math.max(w, 2), h);
};

const drawArrow = (x0, y0, x1, y1) => {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  for (const side of [-.4, .4]) {
    context.moveTo(x1, y1);
    context.lineTo(x1 - 6 * Math.cos(angle + side), y1 - 6 * Math.sin(angle + side));
  }
  context.stroke();
};

/// From what a wait waits for to its end.
const drawCause = (ref, t) => {
  const {cause} = commandOf(ref);
  if (!cause || commandOf(cause).kind === RECORD) return;
  const given = spanOf(timings[t], cause)[1], [begin, end] = spanOf(timings[t], ref);
  if (given >= 0 && begin >= 0) drawArrow(xOf(given), yOf(cause, t), xOf(end < 0 ? begin : end), yOf(ref, t));
};

/// A line under each command of the critical path, thin while no command runs.
const drawPath = (timing, t) => {
  context.fillStyle = context.strokeStyle = colours.path;
  context.lineWidth = 1;
  let before = null;
  for (const [rank, command, what, begin, took] of timing.path) {
    const ref = [rank, command];
    if (commandOf(ref).kind === RECORD) continue;
    const y = yOf(ref, t) + part() / 2, x = xOf(begin), thick = what === timing.gap ? 1 : 3;
    context.fillRect(x, y - thick, Math.max(xOf(begin + took) - x, 1), thick);
    if (before !== null && Math.abs(before - y) > 1) drawArrow(x, before, x, y);
    before = y;
  }
};

/// Numbers where marked commands begin, joined by dashed lines if they belong together.
const drawMarks = () => {
  const places = data.marks.map(([rank, command]) => {
    if (rank < 0 || !timings.length || commandOf([rank, command]).kind === RECORD) return null;
    const [begin] = spanOf(timings[0], [rank, command]);
    return begin < 0 ? null : [xOf(begin) + 8, yOf([rank, command], 0)];
  });
  context.strokeStyle = colours.bad;
  context.setLineDash([5, 3]);
  if (data.linked && !places.includes(null))
    places.forEach(([x, y], i) => drawArrow(x, y, ...places[(i + 1) % places.length]));
  context.setLineDash([]);
  context.textAlign = 'center';
  places.forEach((place, i) => {
    if (!place) return;
    context.fillStyle = colours.bad;
    context.beginPath();
    context.arc(...place, 8, 0, 7);
    context.fill();
    context.fillStyle = colours.paper;
    context.fillText(i + 1, ...place);
  });
};

const drawLabels = () => {
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, LABELS - 2, height);
  context.textAlign = 'left';
  rows.forEach(({rank, stream}, n) => {
    const isFirst = n === 0 || rows[n - 1].rank !== rank, y = (n + .5) * rowHeight;
    context.fillStyle = isFirst ? colours.ink : colours.soft;
    if (isFirst) context.fillText(rank.number, 4, y, 34);
    if (rowHeight > 8) context.fillText(streamName(rank, stream), 42, y, LABELS - 48);
  });
};

const drawAxis = () => {
  const room = (state.to - state.from) / Math.max(2, (width - LABELS) / 90);
  let step = 10 ** Math.ceil(Math.log10(room));
  for (const fraction of [.2, .5]) if (step * fraction >= room) { step *= fraction; break; }
  if (data.unit !== 'µs') step = Math.max(1, Math.round(step));
  axis.fillStyle = colours.paper;
  axis.fillRect(0, 0, width, AXIS);
  axis.fillStyle = colours.soft;
  axis.font = '11px system-ui,sans-serif';
  axis.fillText('rank', 4, 14);
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step))));
  for (let t = Math.max(0, Math.ceil(state.from / step)) * step; t <= state.to; t += step) {
    axis.fillRect(xOf(t), AXIS - 5, 1, 5);
    axis.fillText(t.toFixed(digits) + (t === 0 ? ' ' + data.unit : ''), xOf(t) + 3, 14);
  }
};

const draw = () => {
  context.globalAlpha = 1;
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, height);
  context.font = '11px system-ui,sans-serif';
  context.textBaseline = 'middle';
  rows.forEach(({refs}, n) => {
    context.globalAlpha = 1;
    context.fillStyle = colours.lane;
    context.fillRect(LABELS, n * rowHeight, width - LABELS, rowHeight - 1);
    timings.forEach((timing, t) => {
      for (const ref of refs) drawCommand(ref, timing, n * rowHeight + part() * t, part());
    });
  });
  context.globalAlpha = 1;
  timings.forEach((timing, t) => {
    drawPath(timing, t);
    context.strokeStyle = colours.pickline;
    context.lineWidth = 2;
    for (const ref of [state.hover, state.command]) if (ref) drawCause(ref, t);
  });
  drawMarks();
  drawLabels();
  drawAxis();
};
let isDue = false;
const redraw = () => {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; draw(); });
};

// -- Choosing. --
const light = () => {
  lines.forEach((element, i) => {
    element.classList.toggle('lit', state.hoverLine === i + 1);
    element.classList.toggle('chosen', state.line === i + 1);
  });
  const line = state.hoverLine || state.line;
  if (line && state.hover) lines[line - 1].scrollIntoView({block: 'nearest', inline: 'nearest'});
  redraw();
};
const chooseLine = line => {
  state.line = line;
  state.command = null;
  light();
  if (line) lines[line - 1].scrollIntoView({block: 'nearest', inline: 'nearest'});
};
/// Chooses a command, and moves the window so that it is seen.
const chooseCommand = ref => {
  chooseLine(commandOf(ref).line);
  state.command = ref;
  const [begin, end] = timings.length ? spanOf(timings[0], ref) : [-1, -1];
  if (begin >= 0 && (begin < state.from || endOf(end) > state.to)) {
    const half = Math.max(state.to - state.from, (endOf(end) - begin) * 1.5) / 2, middle = (begin + endOf(end)) / 2;
    setWindow(middle - half, middle + half);
  }
  const y = yOf(ref, 0);
  if (y < lanes.scrollTop || y > lanes.scrollTop + lanes.clientHeight - AXIS) lanes.scrollTop = y - lanes.clientHeight / 2;
  $('told').textContent = describe(ref).join('. ');
};
const hover = (ref, line, x, y) => {
  const tip = $('tip');
  tip.hidden = !ref;
  if (same(ref, state.hover) && line === state.hoverLine) return;
  state.hover = ref;
  state.hoverLine = line;
  light();
  if (!ref) return;
  tip.textContent = describe(ref).join('\n');
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + 'px';
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + 'px';
};
const step = by => {
  const all = ofLine.get(state.line) || [];
  if (!all.length) return;
  const at = all.findIndex(ref => same(ref, state.command));
  chooseCommand(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
};
const stepPath = () => {
  const steps = timings[0].path.filter(([rank, command, what]) =>
    what !== timings[0].gap && commandOf([rank, command]).kind !== RECORD);
  if (steps.length) chooseCommand(steps[state.pathAt = (state.pathAt + 1) % steps.length].slice(0, 2));
};
const commandAt = (x, y) => {
  const row = rows[Math.floor(y / rowHeight)];
  if (!row || x < LABELS) return null;
  const timing = timings[Math.min(timings.length - 1, Math.floor(y % rowHeight / part()))];
  const near = tOf(x + 3) - tOf(x), t = tOf(x);
  const found = row.refs.filter(ref => {
    const [begin, end] = spanOf(timing, ref);
    return begin >= 0 && begin - near <= t && t <= endOf(end) + near;
  });
  return found.find(ref => spanOf(timing, ref)[0] <= t && t <= endOf(spanOf(timing, ref)[1])) || found[0] || null;
};

// -- Moving. --
const setWindow = (from, to) => {
  const room = Math.min(extent * 1.04, Math.max(extent * 1e-6, to - from));
  state.from = Math.max(-extent * .01, Math.min((from + to - room) / 2, extent * 1.04 - room));
  state.to = state.from + room;
  redraw();
};
const zoom = (factor, t) => setWindow(t - (t - state.from) * factor, t + (state.to - t) * factor);
const zoomMiddle = factor => zoom(factor, (state.from + state.to) / 2);
const pan = fraction => {
  const by = (state.to - state.from) * fraction;
  setWindow(state.from + by, state.to + by);
};
const fit = () => setWindow(-extent * .01, extent * 1.03);
const placeIn = event => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
let grabbed = null, moved = 0;
lanes.addEventListener('pointerdown', event => { grabbed = event.clientX; moved = 0; });
lanes.addEventListener('pointermove', event => {
  if (grabbed === null) {
    const ref = commandAt(...placeIn(event));
    return hover(ref, ref ? commandOf(ref).line : 0, event.clientX, event.clientY);
  }
  pan((grabbed - event.clientX) / (width - LABELS));
  moved += Math.abs(event.clientX - grabbed);
  grabbed = event.clientX;
});
lanes.addEventListener('pointerup', event => {
  const ref = commandAt(...placeIn(event));
  if (grabbed !== null && moved <= 3) ref ? chooseCommand(ref) : chooseLine(0);
  grabbed = null;
});
lanes.addEventListener('pointerleave', () => { grabbed = null; hover(null, 0); });
lanes.addEventListener('wheel', event => {
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * .003), tOf(Math.max(placeIn(event)[0], LABELS)));
  else if (event.shiftKey || event.deltaX) pan((event.deltaX || event.deltaY) / 1000);
  else return;
  event.preventDefault();
}, {passive: false});
const lineAt = event => Number(event.target.closest('[data-line]')?.dataset.line || 0);
$('text').addEventListener('pointermove', event => hover(null, lineAt(event)));
$('text').addEventListener('pointerleave', () => hover(null, 0));
$('text').addEventListener('click', event => chooseLine(lineAt(event) === state.line ? 0 : lineAt(event)));
const KEYS = {
  ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), '+': () => zoomMiddle(.7), '=': () => zoomMiddle(.7),
  '-': () => zoomMiddle(1 / .7), 0: fit, n: () => step(1), p: () => step(-1), c: stepPath,
  Escape: () => { hover(null, 0); chooseLine(0); },
};
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

// -- The words above. --
const explain = (colour, words) => {
  const item = document.createElement('li'), box = document.createElement('i');
  box.style.backgroundColor = 'var(--' + colour + ')';
  item.append(box, words);
  $('legend').append(item);
};
const used = new Set(ranks.flatMap(rank => rank.commands.map(command => command.kind)));
KINDS.forEach((name, kind) => { if (kind !== RECORD && used.has(kind)) explain('k' + kind, name); });
if (data.failure) explain('bad', 'never ends');
const withPath = timings.find(timing => timing.path.length);
if (withPath) explain('path', 'critical path; thin: ' + withPath.gap);
if (timings.length > 1) explain('lane', timings.map(timing => timing.name).join(' over '));
const toMark = ([rank, command, , line]) => rank >= 0 ? chooseCommand([rank, command]) : chooseLine(line);
data.marks.forEach((mark, i) => {
  const element = document.createElement('li'), button = document.createElement('button');
  button.textContent = i + 1;
  button.addEventListener('click', () => toMark(mark));
  element.append(button, mark[2]);
  $('marks').append(element);
  if (mark[3]) lines[mark[3] - 1].classList.add('marked');
});

const again = () => { layOut(); redraw(); };
matchMedia('(prefers-color-scheme:dark)').addEventListener('change', again);
new ResizeObserver(again).observe(lanes);
layOut();
fit();
const first = data.marks.find(([rank, , , line]) => rank >= 0 || line > 0);
if (data.failure && first) toMark(first);
})();
