'use strict';
(() => {
// -- The data. What does not begin, or does not end, has -1 in its place. --
const data = JSON.parse(document.getElementById('data').textContent);
const KINDS = ['GEMM', 'copy', 'sum, pointwise', 'signal', 'wait for a peer', 'record', 'wait for a stream', 'message'];
const AWAIT = 4, RECORD = 5, WAIT_EVENT = 6;
const PART_KIND = {GEMM: 0, copy: 1, sum: 2, signal: 3, event: 6, message: 7, launch: 5, idle: 5, run: 5};
const $ = id => document.getElementById(id);
const ranks = data.ranks.map((raw, number) => ({
  number, names: raw.names, ranks: raw.n, count: raw.k.length,
  kind: Uint8Array.from(raw.k, Number), stream: Uint32Array.from(raw.s), line: Uint32Array.from(raw.l),
  run: raw.r, peer: raw.p, bytes: raw.b, trips: raw.t, cause: raw.c,
}));
const timings = data.timings.map(raw => ({
  name: raw.name, gap: raw.gap, total: raw.total, parts: raw.parts, path: raw.path,
  spans: raw.spans.map(s => Float64Array.from(s)),
  onPath: new Set(raw.path.map(([rank, command]) => rank + ':' + command)),
}));

/// The first number by which the page calls a rank, and all.
const nameOf = rank => 'rank ' + rank.ranks[0] + (rank.ranks.length > 1 ? ' and ' + (rank.ranks.length - 1) + ' alike' : '');
const listOf = numbers => {
  const runs = [];
  for (const n of numbers) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([a, b]) => a === b ? a : a + ' to ' + b).join(', ');
};

// -- Rows: one for each stream that has commands. --
const rows = [];
for (const rank of ranks) {
  const byStream = new Map();
  for (let i = 0; i < rank.count; ++i) {
    if (!byStream.has(rank.stream[i])) byStream.set(rank.stream[i], []);
    byStream.get(rank.stream[i]).push(i);
  }
  rank.rowOf = {};
  for (const stream of [...byStream.keys()].sort((a, b) => a - b)) {
    rank.rowOf[stream] = rows.length;
    rows.push({rank, stream, first: rows.length === 0 || rows[rows.length - 1].rank !== rank,
      commands: Uint32Array.from(byStream.get(stream))});
  }
}

// -- What is chosen. --
const state = {
  from: 0, to: 1, shown: [0], line: 0, hoverLine: 0, command: null, hover: null,
  found: [], at: -1, pathAt: -1, rowHeight: 16, labels: 96,
};
const extent = Math.max(1e-6, ...timings.map((timing, t) => Math.max(timing.total, ...timings[t].spans.map(s => {
  let most = 0;
  for (const x of s) if (x > most) most = x;
  return most;
}))));
const AXIS = 20, GAP = 6;

const time = x => {
  if (data.unit !== 'µs') return Math.round(x) + ' ' + data.unit + (Math.round(x) === 1 ? '' : 's');
  return x >= 1e4 ? (x / 1e3).toFixed(1) + ' ms' : x.toFixed(x < 10 ? 2 : 1) + ' µs';
};
const size = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(1) + ' GiB' : n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1) + ' MiB'
  : n >= 1024 ? (n / 1024).toFixed(1) + ' KiB' : n + ' B';
const text = line => line > 0 ? data.text[line - 1].trim() : '';

// -- The text. --
const lines = data.text.map((content, i) => {
  const element = document.createElement('div');
  const number = document.createElement('b');
  number.textContent = i + 1;
  element.append(number, content || ' ');
  element.id = 'line' + (i + 1);
  element.setAttribute('role', 'option');
  element.dataset.line = i + 1;
  $('text').append(element);
  return element;
});
const ofLine = new Map(); // its commands, [rank, command]
ranks.forEach((rank, r) => {
  for (let i = 0; i < rank.count; ++i) {
    const line = rank.line[i];
    if (!line || rank.kind[i] === RECORD) continue;
    if (!ofLine.has(line)) ofLine.set(line, []);
    ofLine.get(line).push([r, i]);
  }
});
for (const line of ofLine.keys()) lines[line - 1].classList.add('has');

// -- Colours, of the style sheet. --
let colours;
const readColours = () => {
  const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue('--' + name).trim();
  colours = {kinds: KINDS.map((_, i) => get('k' + i)), ink: get('ink'), soft: get('soft'), line: get('line'), lane: get('lane'),
    paper: get('paper'), pick: get('pickline'), path: get('path'), bad: get('bad')};
};

// -- Geometry. --
const canvas = $('canvas'), lanes = $('lanes'), context = canvas.getContext('2d');
let width = 0, height = 0, tops = [], whole = 0;
const layOut = () => {
  width = lanes.clientWidth;
  height = printing ? whole : lanes.clientHeight;
  state.labels = width < 480 ? 68 : 104;
  const groups = rows.filter(row => row.first).length;
  const fit = (lanes.clientHeight - AXIS - groups * GAP - 8) / Math.max(1, rows.length);
  state.rowHeight = Math.max(state.shown.length > 1 ? 16 : 9, Math.min(26, Math.floor(fit)));
  tops = [];
  let y = AXIS;
  for (const row of rows) {
    if (row.first) y += GAP;
    tops.push(y);
    y += state.rowHeight;
  }
  whole = y + 8;
  if (printing) height = whole;
  $('room').style.height = Math.max(whole, height) + 'px';
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
};
let printing = false;
const scroll = () => printing ? 0 : lanes.scrollTop;
const xOf = t => state.labels + (t - state.from) / (state.to - state.from) * (width - state.labels);
const tOf = x => state.from + (x - state.labels) / (width - state.labels) * (state.to - state.from);
const rowOf = ref => ranks[ref[0]].rowOf[ranks[ref[0]].stream[ref[1]]];
const spanOf = (timing, ref) => [timing.spans[ref[0]][2 * ref[1]], timing.spans[ref[0]][2 * ref[1] + 1]];
/// What has begun and never ends goes on to the end of the page.
const endOf = (begin, end) => end < 0 ? extent * 1.02 : end;

// -- Drawing. --
let due = false;
const redraw = () => {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
};

const hatch = (x, y, w, h) => {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.beginPath();
  for (let at = Math.floor((x - h) / 5) * 5; at < x + w; at += 5) {
    context.moveTo(at, y + h);
    context.lineTo(at + h, y);
  }
  context.stroke();
  context.restore();
};

/// The first of a row's commands that may end after `t`. Commands of a stream follow one another.
const firstAfter = (commands, spans, t) => {
  let low = 0, high = commands.length;
  while (low < high) {
    const middle = (low + high) >> 1, end = spans[2 * commands[middle] + 1];
    if (end >= 0 && end < t) low = middle + 1;
    else high = middle;
  }
  return low;
};

const drawRow = (row, y, timing, h) => {
  const {rank, commands} = row, spans = timing.spans[rank.number];
  const chosen = state.line || state.hoverLine;
  let drawn = -1, drawnKind = -1;
  for (let i = firstAfter(commands, spans, state.from); i < commands.length; ++i) {
    const command = commands[i], begin = spans[2 * command];
    if (begin < 0) continue;
    if (begin > state.to) break;
    const kind = rank.kind[command], end = endOf(begin, spans[2 * command + 1]);
    if (kind === RECORD || end <= begin) continue;
    const x = Math.max(xOf(begin), state.labels), w = Math.max(xOf(end) - x, .75);
    const isLit = chosen && rank.line[command] === chosen;
    if (w < 1 && Math.floor(x) === drawn && drawnKind === kind && !isLit) continue; // it would not be seen
    drawn = Math.floor(x);
    drawnKind = kind;
    const isWait = kind === AWAIT || kind === WAIT_EVENT, isStuck = spans[2 * command + 1] < 0;
    context.globalAlpha = chosen && !isLit ? .35 : 1;
    context.fillStyle = isStuck ? colours.bad : colours.kinds[kind];
    if (isWait) {
      context.globalAlpha *= isStuck ? .3 : 1;
      context.fillRect(x, y + h * .25, w, h * .5);
      context.globalAlpha = chosen && !isLit ? .35 : 1;
      if (w > 6) {
        context.strokeStyle = isStuck ? colours.bad : colours.soft;
        context.lineWidth = 1;
        hatch(x, y + h * .25, w, h * .5);
      }
    } else {
      context.fillRect(x, y + 1, Math.max(w - (w > 3 ? .5 : 0), .75), h - 2);
    }
    if (isLit) {
      context.strokeStyle = colours.pick;
      context.lineWidth = 2;
      context.strokeRect(x, y + 1, Math.max(w, 2), h - 2);
    }
  }
  context.globalAlpha = 1;
};

/// Where a command is on the canvas.
const placeOf = (ref, t, shown) => {
  const top = tops[rowOf(ref)] - scroll(), part = state.rowHeight / state.shown.length;
  return [xOf(t), top + part * (shown + .5)];
};

const drawArrow = (from, to) => {
  const [x0, y0] = from, [x1, y1] = to;
  const angle = Math.atan2(y1 - y0, x1 - x0);
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.moveTo(x1 - 6 * Math.cos(angle - .4), y1 - 6 * Math.sin(angle - .4));
  context.lineTo(x1, y1);
  context.lineTo(x1 - 6 * Math.cos(angle + .4), y1 - 6 * Math.sin(angle + .4));
  context.stroke();
};

/// From what a wait waits for to its end, between ranks; fewer than `most` in sight.
const drawCauses = (timing, shown, top, bottom, most) => {
  const wanted = [];
  for (let n = top; n <= bottom && n < rows.length; ++n) {
    const {rank, commands} = rows[n], spans = timing.spans[rank.number];
    for (let i = firstAfter(commands, spans, state.from); i < commands.length; ++i) {
      const command = commands[i], end = spans[2 * command + 1], from = rank.cause[2 * command];
      if (spans[2 * command] > state.to) break;
      if (from < 0 || rank.kind[command] === WAIT_EVENT || end < 0) continue;
      wanted.push([rank.number, command]);
      if (wanted.length > most) return false;
    }
  }
  context.strokeStyle = colours.soft;
  context.lineWidth = 1;
  context.globalAlpha = .7;
  for (const ref of wanted) drawCause(timing, shown, ref);
  context.globalAlpha = 1;
  return true;
};

const causeOf = ref => {
  const {cause} = ranks[ref[0]], rank = cause[2 * ref[1]];
  return rank < 0 ? null : [rank, cause[2 * ref[1] + 1]];
};

const drawCause = (timing, shown, ref) => {
  const cause = causeOf(ref);
  if (!cause) return;
  const [begin, end] = spanOf(timing, ref), given = spanOf(timing, cause)[1];
  if (given < 0) return;
  drawArrow(placeOf(cause, given, shown), placeOf(ref, end < 0 ? begin : end, shown));
};

/// A line under each command of the path, and arrows from one to the next.
const drawPath = (timing, shown) => {
  context.strokeStyle = colours.path;
  context.fillStyle = colours.path;
  context.lineWidth = 1.5;
  let before = null;
  for (const [rank, command, what, begin, took] of timing.path) {
    const ref = [rank, command], [x0, y] = placeOf(ref, begin, shown), x1 = xOf(begin + took);
    const bottom = y + state.rowHeight / state.shown.length / 2;
    const from = Math.max(x0, state.labels), thick = what === timing.gap ? 1 : 3;
    if (x1 >= state.labels && x0 <= width)
      context.fillRect(from, bottom - thick, Math.max(x1 - from, 1), thick);
    if (before && rowOf(before) !== rowOf(ref)) {
      const [from, fromY] = placeOf(before, begin, shown);
      if (from >= state.labels && from <= width) drawArrow([from, fromY], [from, y]);
    }
    before = ref;
  }
};

/// Who waits for whom, or what nothing orders.
const drawRelation = () => {
  const places = data.marks.filter(([ref]) => ref[0] >= 0).map(([ref]) => {
    const [begin] = spanOf(timings[state.shown[0]], ref);
    return begin < 0 ? null : placeOf(ref, begin, 0).map((at, i) => i ? at : at + 8);
  });
  if (!data.relation || places.length < 2 || places.includes(null)) return;
  context.strokeStyle = colours.bad;
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  if (data.relation === 1) places.forEach((place, i) => bend(place, places[(i + 1) % places.length]));
  else bend(places[0], places[1]);
  context.setLineDash([]);
};
/// A line that leaves to the right, so that one there and one back are two.
const bend = ([x0, y0], [x1, y1]) => {
  const by = (y1 > y0 ? 1 : -1) * Math.min(60, 20 + Math.abs(y1 - y0) / 4);
  context.beginPath();
  context.moveTo(x0, y0);
  context.quadraticCurveTo((x0 + x1) / 2 + (by > 0 ? by : by / 2), (y0 + y1) / 2, x1, y1);
  context.stroke();
};

/// How many commands of a row never begin, behind the one that never ends.
const drawUnreached = (row, y) => {
  const spans = timings[state.shown[0]].spans[row.rank.number];
  const isStuck = row.commands.some(command => spans[2 * command] >= 0 && spans[2 * command + 1] < 0);
  const left = row.commands.filter(command => spans[2 * command] < 0 && row.rank.kind[command] !== RECORD).length;
  if (!left || !isStuck) return;
  context.font = '11px system-ui,sans-serif';
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  const said = 'behind it: ' + left + (left === 1 ? ' command' : ' commands'), w = context.measureText(said).width;
  context.fillStyle = colours.paper;
  context.fillRect(width - w - 12, y + state.rowHeight / 2 - 7, w + 8, 14);
  context.fillStyle = colours.bad;
  context.fillText(said, width - 8, y + state.rowHeight / 2);
};

const drawMarks = () => {
  drawRelation();
  context.font = '600 11px system-ui,sans-serif';
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  data.marks.forEach(([ref], i) => {
    if (ref[0] < 0) return;
    const [begin] = spanOf(timings[state.shown[0]], ref);
    if (begin < 0) return;
    const [x, y] = placeOf(ref, begin, 0);
    if (x < state.labels - 4 || x > width || y < AXIS) return;
    context.fillStyle = colours.bad;
    context.beginPath();
    context.arc(x + 8, y, 8, 0, 7);
    context.fill();
    context.fillStyle = colours.paper;
    context.fillText(i + 1, x + 8, y + .5);
  });
};

/// All of an axis in one unit, with as many digits as tell its steps apart.
const axisText = (t, step) => {
  if (data.unit !== 'µs') return time(t);
  const inMs = state.to >= 1e4, unit = inMs ? 1e3 : 1, digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / unit))));
  return (t / unit).toFixed(digits) + (inMs ? ' ms' : ' µs');
};

const drawAxis = () => {
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, AXIS);
  const room = (state.to - state.from) / Math.max(2, (width - state.labels) / 90);
  let step = 10 ** Math.ceil(Math.log10(room));
  for (const part of [.2, .5]) if (step * part >= room) { step *= part; break; }
  if (data.unit !== 'µs') step = Math.max(1, Math.round(step));
  context.fillStyle = colours.soft;
  context.font = '11px system-ui,sans-serif';
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (let t = Math.ceil(state.from / step) * step; t <= state.to; t += step) {
    const x = xOf(t);
    context.fillRect(x, AXIS - 5, 1, 5);
    if (x < width - 50) context.fillText(axisText(t, step), x + 3, AXIS / 2);
  }
};

const drawLabels = (top, bottom) => {
  context.fillStyle = colours.paper;
  context.fillRect(0, AXIS, state.labels - 2, height);
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  const least = state.rowHeight < 11 ? 9 : 11;
  for (let n = top; n <= bottom && n < rows.length; ++n) {
    const row = rows[n], y = tops[n] - scroll() + state.rowHeight / 2;
    const half = state.labels < 80 ? 24 : 44;
    if (row.first) {
      context.fillStyle = colours.ink;
      context.font = '600 ' + least + 'px system-ui,sans-serif';
      context.fillText(row.rank.ranks[0] + (row.rank.ranks.length > 1 ? ' +' + (row.rank.ranks.length - 1) : ''), 4, y, half - 6);
    }
    context.fillStyle = colours.soft;
    context.font = least + 'px system-ui,sans-serif';
    context.fillText(row.rank.names[row.stream] || 'stream ' + row.stream, half, y, state.labels - half - 4);
  }
  context.font = '11px system-ui,sans-serif';
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, state.labels, AXIS);
  context.fillStyle = colours.soft;
  context.fillText('rank', 4, AXIS / 2);
};

const draw = () => {
  context.clearRect(0, 0, width, height);
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, height);
  const above = scroll();
  let top = 0, bottom = rows.length - 1;
  while (top < rows.length - 1 && tops[top] + state.rowHeight < above + AXIS) ++top;
  while (bottom > top && tops[bottom] > above + height) --bottom;
  const part = state.rowHeight / state.shown.length;
  context.save();
  context.beginPath();
  context.rect(state.labels, AXIS, width - state.labels, height);
  context.clip();
  for (let n = top; n <= bottom && n < rows.length; ++n) {
    const y = tops[n] - above;
    context.fillStyle = colours.lane;
    context.fillRect(state.labels, y, width - state.labels, state.rowHeight - 1);
    state.shown.forEach((t, i) => drawRow(rows[n], y + i * part, timings[t], part - (i + 1 === state.shown.length ? 1 : 0)));
  }
  let areMany = false;
  state.shown.forEach((t, i) => {
    if ($('arrows').checked && !drawCauses(timings[t], i, top, bottom, 400)) areMany = true;
    if ($('critical').checked) drawPath(timings[t], i);
    for (const ref of [state.hover, state.command])
      if (ref) {
        context.strokeStyle = colours.pick;
        context.lineWidth = 2;
        drawCause(timings[t], i, ref);
        for (const other of causedBy(ref)) drawCause(timings[t], i, other);
      }
  });
  if (state.command) outline(state.command);
  if (data.failure) for (let n = top; n <= bottom && n < rows.length; ++n) drawUnreached(rows[n], tops[n] - above);
  drawMarks();
  context.restore();
  drawLabels(top, bottom);
  drawAxis();
  $('many').hidden = !areMany;
};

const outline = ref => {
  state.shown.forEach((t, i) => {
    const [begin, end] = spanOf(timings[t], ref);
    if (begin < 0) return;
    const part = state.rowHeight / state.shown.length, y = tops[rowOf(ref)] - scroll() + i * part;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.strokeRect(xOf(begin), y + 1, Math.max(xOf(endOf(begin, end)) - xOf(begin), 2), part - 2);
  });
};

let effects = null; // of a command, the waits that it ends
const causedBy = ref => {
  if (!effects) {
    effects = new Map();
    ranks.forEach((rank, r) => {
      for (let i = 0; i < rank.count; ++i)
        if (rank.cause[2 * i] >= 0) {
          const key = rank.cause[2 * i] + ':' + rank.cause[2 * i + 1];
          if (!effects.has(key)) effects.set(key, []);
          effects.get(key).push([r, i]);
        }
    });
  }
  return effects.get(ref[0] + ':' + ref[1]) || [];
};

// -- What is under the pointer. --
const commandAt = (x, y) => {
  if (x < state.labels || y < AXIS) return null;
  const inside = y + scroll();
  let n = -1;
  for (let low = 0, high = tops.length - 1; low <= high;) {
    const middle = (low + high) >> 1;
    if (tops[middle] <= inside) { n = middle; low = middle + 1; } else high = middle - 1;
  }
  if (n < 0 || inside > tops[n] + state.rowHeight) return null;
  const part = state.rowHeight / state.shown.length, which = Math.min(state.shown.length - 1, Math.floor((inside - tops[n]) / part));
  const {rank, commands} = rows[n], spans = timings[state.shown[which]].spans[rank.number];
  const near = (state.to - state.from) / (width - state.labels) * 3, t = tOf(x);
  let best = null, distance = near;
  for (let i = firstAfter(commands, spans, t - near); i < commands.length; ++i) {
    const command = commands[i], begin = spans[2 * command];
    if (begin < 0 || rank.kind[command] === RECORD) continue;
    if (begin > t + near) break;
    const end = endOf(begin, spans[2 * command + 1]);
    const away = t < begin ? begin - t : t > end ? t - end : 0;
    if (end > begin && (away < distance || (away === 0 && !best))) { best = [rank.number, command]; distance = away; }
  }
  return best;
};

/// Sentences about a command: what, where, when, and why it waits.
const describe = ref => {
  const rank = ranks[ref[0]], i = ref[1], said = [];
  const trips = data.trips[rank.trips[i]];
  said.push(KINDS[rank.kind[i]] + ', ' + nameOf(rank) + ', ' + (rank.names[rank.stream[i]] || 'stream ' + rank.stream[i])
    + (trips ? ', trip ' + trips : '') + (rank.run[i] > 1 ? ', run ' + rank.run[i] : ''));
  if (rank.ranks.length > 1) said.push('the same on ranks ' + listOf(rank.ranks));
  for (const t of state.shown) {
    const timing = timings[t], [begin, end] = spanOf(timing, ref);
    if (begin < 0) said.push(timing.name + ': does not begin');
    else if (end < 0) said.push(timing.name + ': began at ' + time(begin) + ' and never ends');
    else said.push(timing.name + ': ' + time(end - begin) + ', from ' + time(begin) + ' to ' + time(end)
      + (timing.onPath.has(ref[0] + ':' + i) ? ', on the critical path' : ''));
  }
  if (rank.bytes[i]) said.push('writes ' + size(rank.bytes[i]) + (rank.peer[i] >= 0 ? ', with rank ' + rank.peer[i] : ''));
  else if (rank.peer[i] >= 0) said.push('with rank ' + rank.peer[i]);
  const cause = causeOf(ref);
  if (cause) {
    const from = ranks[cause[0]]; // which may stand for the rank that is meant
    said.push('waits for the ' + KINDS[from.kind[cause[1]]] + ' of ' + (rank.kind[i] === WAIT_EVENT ? 'its own rank, ' : 'rank ' + rank.peer[i] + ', ')
      + (from.names[from.stream[cause[1]]] || '') + (from.line[cause[1]] ? ', line ' + from.line[cause[1]] + ': ' + text(from.line[cause[1]]) : ''));
  }
  return said;
};

const showTip = (ref, x, y) => {
  const tip = $('tip');
  tip.hidden = !ref;
  if (!ref) return;
  tip.replaceChildren();
  const code = document.createElement('code');
  code.textContent = text(ranks[ref[0]].line[ref[1]]);
  tip.append(code);
  for (const sentence of describe(ref)) {
    const line = document.createElement('div');
    line.textContent = sentence;
    tip.append(line);
  }
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + 'px';
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + 'px';
};

// -- Choosing. --
const light = () => {
  lines.forEach((element, i) => {
    element.classList.toggle('lit', state.hoverLine === i + 1);
    element.classList.toggle('chosen', state.line === i + 1);
    element.setAttribute('aria-selected', state.line === i + 1);
  });
  if (state.line) $('text').setAttribute('aria-activedescendant', 'line' + state.line);
  else $('text').removeAttribute('aria-activedescendant');
};
const toLine = (line, move = true) => {
  state.line = line;
  light();
  if (line && move) lines[line - 1].scrollIntoView({block: 'nearest', inline: 'nearest'});
  redraw();
};
/// Moves the window so that a command is seen, and chooses it.
const toCommand = ref => {
  state.command = ref;
  const [begin, end] = spanOf(timings[state.shown[0]], ref);
  if (begin >= 0) {
    const room = state.to - state.from, last = endOf(begin, end);
    if (begin < state.from || last > state.to) {
      const span = Math.max(room, (last - begin) * 1.5);
      setWindow((begin + last - span) / 2, (begin + last + span) / 2);
    }
  }
  const y = tops[rowOf(ref)];
  if (y < lanes.scrollTop + AXIS || y + state.rowHeight > lanes.scrollTop + lanes.clientHeight)
    lanes.scrollTop = y - lanes.clientHeight / 2;
  toLine(ranks[ref[0]].line[ref[1]]);
  $('told').textContent = text(ranks[ref[0]].line[ref[1]]) + '. ' + describe(ref).join('. ');
};
const clear = () => {
  state.command = null;
  state.hover = null;
  state.hoverLine = 0;
  showTip(null);
  toLine(0);
};
const step = by => {
  const all = ofLine.get(state.line) || [];
  if (!all.length) return;
  let at = state.command ? all.findIndex(ref => ref[0] === state.command[0] && ref[1] === state.command[1]) : -1;
  at = at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length;
  toCommand(all[at]);
};
const stepPath = () => {
  const shown = timings[state.shown[0]], path = shown.path.filter(part => part[2] !== shown.gap);
  if (!path.length) return;
  state.pathAt = (state.pathAt + 1) % path.length;
  toCommand([path[state.pathAt][0], path[state.pathAt][1]]);
};

// -- Moving. --
const setWindow = (from, to) => {
  const most = extent * 1.04, least = Math.max(most * 1e-6, data.unit === 'µs' ? .01 : 2);
  const room = Math.min(most, Math.max(least, to - from));
  const middle = (from + to) / 2;
  state.from = Math.max(-most * .01, Math.min(middle - room / 2, most - room));
  state.to = state.from + room;
  redraw();
};
const zoom = (factor, x) => {
  const t = x === undefined ? (state.from + state.to) / 2 : tOf(Math.max(x, state.labels));
  setWindow(t - (t - state.from) * factor, t + (state.to - t) * factor);
};
const pan = part => {
  const by = (state.to - state.from) * part;
  setWindow(state.from + by, state.to + by);
};
const fit = () => setWindow(-extent * .01, extent * 1.03);

const pointers = new Map();
let moved = 0;
lanes.addEventListener('pointerdown', event => {
  if (event.clientX - lanes.getBoundingClientRect().left > lanes.clientWidth) return; // its scroll bar
  pointers.set(event.pointerId, event.clientX);
  moved = 0;
});
lanes.addEventListener('pointermove', event => {
  const box = lanes.getBoundingClientRect(), before = pointers.get(event.pointerId);
  if (before === undefined) {
    const ref = commandAt(event.clientX - box.left, event.clientY - box.top);
    if (String(ref) !== String(state.hover)) {
      state.hover = ref;
      state.hoverLine = ref ? ranks[ref[0]].line[ref[1]] : 0;
      light();
      if (state.hoverLine) lines[state.hoverLine - 1].scrollIntoView({block: 'nearest', inline: 'nearest'});
      redraw();
    }
    return showTip(ref, event.clientX, event.clientY);
  }
  const others = [...pointers.keys()].filter(id => id !== event.pointerId);
  if (others.length) { // two fingers
    const other = pointers.get(others[0]), was = Math.abs(before - other), is = Math.abs(event.clientX - other);
    if (was > 10 && is > 10) zoom(was / is, (event.clientX + other) / 2 - box.left);
  } else {
    pan((before - event.clientX) / (width - state.labels));
  }
  moved += Math.abs(event.clientX - before);
  lanes.classList.toggle('moving', moved > 3);
  pointers.set(event.pointerId, event.clientX);
});
const release = event => {
  if (!pointers.delete(event.pointerId)) return;
  lanes.classList.remove('moving');
  if (event.type !== 'pointerup' || moved > 3) return;
  const box = lanes.getBoundingClientRect(), ref = commandAt(event.clientX - box.left, event.clientY - box.top);
  if (ref) toCommand(ref);
  else clear();
  if (ref && event.pointerType === 'touch') showTip(ref, event.clientX, event.clientY);
};
for (const type of ['pointerup', 'pointercancel', 'pointerleave']) lanes.addEventListener(type, release);
lanes.addEventListener('pointerleave', () => {
  if (!state.hover) return;
  state.hover = null;
  state.hoverLine = 0;
  showTip(null);
  light();
  redraw();
});
lanes.addEventListener('wheel', event => {
  const x = event.clientX - lanes.getBoundingClientRect().left;
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * .003), x);
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
  else return;
  event.preventDefault();
}, {passive: false});
lanes.addEventListener('scroll', redraw);

$('text').addEventListener('pointermove', event => {
  const element = event.target.closest('[data-line]'), line = element ? Number(element.dataset.line) : 0;
  if (line === state.hoverLine) return;
  state.hoverLine = line;
  light();
  redraw();
});
$('text').addEventListener('pointerleave', () => { state.hoverLine = 0; light(); redraw(); });
$('text').addEventListener('click', event => {
  const element = event.target.closest('[data-line]'), line = element ? Number(element.dataset.line) : 0;
  state.command = null;
  toLine(line === state.line ? 0 : line);
});

// -- Search. --
const search = () => {
  const wanted = $('search').value.trim().toLowerCase();
  state.found = wanted ? data.text.flatMap((line, i) => line.toLowerCase().includes(wanted) ? [i + 1] : []) : [];
  state.at = -1;
  lines.forEach((element, i) => element.classList.toggle('found', state.found.includes(i + 1)));
  $('hits').textContent = wanted ? state.found.length + (state.found.length === 1 ? ' line' : ' lines') : '';
};
$('search').addEventListener('input', search);
$('search').addEventListener('keydown', event => {
  if (event.key === 'Escape') { $('search').value = ''; search(); lanes.focus(); }
  if (event.key !== 'Enter' || !state.found.length) return;
  const count = state.found.length, from = state.at < 0 && event.shiftKey ? 0 : state.at;
  state.at = (from + (event.shiftKey ? count - 1 : 1)) % count;
  state.command = null;
  toLine(state.found[state.at]);
  $('hits').textContent = (state.at + 1) + ' of ' + state.found.length + ' lines';
});

// -- Keys. --
const KEYS = {
  ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2),
  ArrowUp: () => lanes.scrollBy(0, -60), ArrowDown: () => lanes.scrollBy(0, 60),
  '+': () => zoom(.7), '=': () => zoom(.7), '-': () => zoom(1 / .7), 0: fit,
  n: () => step(1), p: () => step(-1), c: stepPath, Escape: clear, '/': () => $('search').focus(),
};
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT/.test(event.target.tagName) && event.target.type !== 'checkbox') return;
  const isText = event.target === $('text'), inText = isText && /^Arrow(Up|Down)$/.test(event.key);
  if (isText && /^Arrow(Left|Right)$/.test(event.key)) return; // it scrolls
  if (!inText && !(event.key in KEYS)) return;
  event.preventDefault();
  if (!inText) return KEYS[event.key]();
  state.command = null;
  toLine(Math.max(1, Math.min(lines.length, state.line + (event.key === 'ArrowDown' ? 1 : -1))));
});

// -- The words above. --
const swatch = kind => {
  const box = document.createElement('i');
  box.style.backgroundColor = 'var(--k' + kind + ')';
  if (kind === AWAIT || kind === WAIT_EVENT) box.className = 'wait';
  return box;
};
const used = new Set(ranks.flatMap(rank => [...new Set(rank.kind)]));
const explain = (box, name) => {
  const item = document.createElement('li');
  item.append(box, name);
  $('legend').append(item);
};
KINDS.forEach((name, kind) => { if (kind !== RECORD && used.has(kind)) explain(swatch(kind), name); });
const coloured = (name, className) => {
  const box = document.createElement('i');
  box.style.backgroundColor = 'var(--' + name + ')';
  box.className = className;
  return box;
};
if (timings.some(timing => timing.path.length)) explain(coloured('path', 'line'), 'critical path; thin: ' + timings[0].gap);
if (timings.some(timing => timing.spans.some(spans => spans.some((x, i) => i % 2 && x < 0 && spans[i - 1] >= 0))))
  explain(coloured('bad', 'wait'), 'never ends');
if (data.relation) explain(coloured('bad', 'line'), data.relation === 1 ? 'waits for' : 'nothing orders');
const showParts = () => {
  const timing = timings[state.shown[0]], all = timing.parts.reduce((sum, part) => sum + part[1], 0);
  $('path').hidden = !all;
  $('bar').replaceChildren();
  $('parts').replaceChildren();
  $('bar').setAttribute('aria-label', timing.parts.map(([what, took]) => what + ' ' + time(took)).join(', '));
  for (const [what, took] of timing.parts) {
    const bar = document.createElement('span'), item = document.createElement('li');
    bar.style.width = 100 * took / all + '%';
    bar.style.backgroundColor = 'var(--k' + PART_KIND[what] + ')';
    bar.title = what;
    item.append(swatch(PART_KIND[what]), what + ' ' + time(took) + ' (' + Math.round(100 * took / all) + ' %)');
    $('bar').append(bar);
    $('parts').append(item);
  }
};
const toMark = ([ref, , line]) => {
  if (ref[0] >= 0) return toCommand(ref);
  state.command = null;
  toLine(line);
};
const isSeen = ([ref, , line]) => ref[0] >= 0 || line > 0;
data.marks.forEach((mark, i) => {
  const [ref, sentence, line] = mark;
  const item = document.createElement('li'), button = document.createElement('button');
  button.type = 'button';
  button.textContent = i + 1;
  button.setAttribute('aria-label', 'Show ' + (i + 1));
  button.disabled = !isSeen(mark);
  button.addEventListener('click', () => toMark(mark));
  item.append(button, sentence);
  $('marks').append(item);
  $('marks').hidden = false;
  if (line) lines[line - 1].classList.add('marked');
});
timings.forEach((timing, i) => $('timing').add(new Option(timing.name, i)));
if (timings.length > 1) $('timing').add(new Option(timings.map(timing => timing.name).join(' over '), 'all', true, true));
$('which').hidden = timings.length < 2;
const chooseTiming = () => {
  const value = $('timing').value;
  state.shown = value === 'all' ? timings.map((_, i) => i) : [Number(value)];
  state.pathAt = -1;
  showParts();
  layOut();
  redraw();
};
$('timing').addEventListener('change', chooseTiming);
$('in').addEventListener('click', () => zoom(.5));
$('out').addEventListener('click', () => zoom(2));
$('fit').addEventListener('click', fit);
for (const id of ['critical', 'arrows']) $(id).addEventListener('change', redraw);
if (!timings.some(timing => timing.path.length)) $('critical').parentElement.hidden = true;
$('keys').addEventListener('click', () => {
  $('help').hidden = !$('help').hidden;
  $('keys').setAttribute('aria-expanded', !$('help').hidden);
});

const again = () => { readColours(); layOut(); redraw(); };
matchMedia('(prefers-color-scheme:dark)').addEventListener('change', again);
new ResizeObserver(again).observe(lanes);
addEventListener('beforeprint', () => { printing = true; readColours(); layOut(); layOut(); draw(); });
addEventListener('afterprint', () => { printing = false; again(); });
readColours();
chooseTiming();
fit();
const first = data.marks.find(isSeen);
if (data.failure && first) toMark(first);
})();
