//===- api/pairs/heat_map_page.cpp - the parts of the page that are the same for every report -===//

#include "api/pairs/heat_map_page.h"

namespace braid {

const char *const kPageStyle = R"css(
:root{--mark:#d1410c;--ink:#1b1b1f;--soft:#5a5a66;
--paper:#fff;--panel:#f4f4f7;--line:#d4d4dc;--none:#e3e3e8;
--fault:#b0124f;--slow:#8a4b00;--note:#3d5a80;--focus:#1a5fd0}
@media (prefers-color-scheme:dark){:root{--ink:#ececf1;--soft:#a5a5b2;--paper:#16161a;
--panel:#212127;--line:#3b3b45;--none:#34343d;--fault:#ff7aa8;--slow:#f0b060;--note:#9dbce0;
--focus:#8ab4ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
header,main{max-width:80rem;margin:0 auto;padding:0 1rem}
h1{font-size:1.5rem;margin:1.25rem 0 0}
h2{font-size:1.125rem;margin:1.5rem 0 .5rem}
summary{font-weight:600;font-size:1.125rem;margin:1.5rem 0 .5rem;cursor:pointer}
h3{font-size:1rem;margin:0 0 .25rem}
header p{margin:0;color:var(--soft)}
ul{margin:0;padding-left:1.25rem}
li{max-width:50rem;margin:.25rem 0}
.verdicts{list-style:none;padding:0}
.verdicts li{display:flex;gap:.75rem;align-items:baseline}
.badge{flex:none;width:3.5rem;font-size:.8rem;font-weight:600;text-align:center;border-radius:4px;
border:1px solid currentColor}
.fault .badge{color:var(--fault)}
.slow .badge{color:var(--slow)}
.note .badge{color:var(--note)}
.cause{color:var(--soft)}
button,select{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);
border-radius:4px;padding:.15rem .5rem}
.show{font-size:.8rem;padding:0 .4rem;cursor:pointer}
:focus-visible{outline:3px solid var(--focus);outline-offset:1px}
.controls{display:flex;flex-wrap:wrap;gap:.5rem 1rem;margin:0 0 .75rem}
.controls label{display:flex;gap:.5rem;align-items:center}
.controls select{max-width:16rem}
.words{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));
gap:0 2.5rem}
.board{display:flex;flex-wrap:wrap;gap:1rem 1.5rem;align-items:flex-start}
.left{flex:0 1 auto;min-width:min(20rem,100%);max-width:100%}
.scroll{overflow:auto;max-width:100%;max-height:65vh;position:relative;padding:3px}
table.map{--room:calc(100vw - 4.5rem);
--cell:clamp(var(--least),calc(var(--room)/var(--n) - 1px),3.75rem);table-layout:fixed;width:0;
border-collapse:separate;border-spacing:1px;font-variant-numeric:tabular-nums;
font-size:clamp(.6rem,calc(var(--cell)*.27),.9rem)}
.map th{font-weight:400;color:var(--soft);background:var(--paper);position:sticky;padding:0;
line-height:1;white-space:nowrap;overflow:visible}
.map thead th{top:-3px;z-index:1;height:1.6em;width:var(--cell);text-align:center}
.map tbody th{left:-3px;text-align:right;z-index:1;padding-right:4px}
.map thead td{position:sticky;top:-3px;left:-3px;z-index:2;width:2.25rem;min-width:2.25rem;
height:1.6em;background:var(--paper)}
.many th{font-size:.6rem}
.many thead th{text-align:left}
.map th.at{color:var(--ink);font-weight:700}
.map td{width:var(--cell);min-width:var(--cell);height:var(--cell);padding:0;text-align:center;
background:var(--none);overflow:hidden;line-height:1;cursor:default}
.map td.self{background:none}
.map td.failed{background:repeating-linear-gradient(45deg,#c2185b 0 4px,#8e1045 4px 8px);
color:#fff;font-weight:600}
.map td.slow{box-shadow:inset 0 0 0 3px var(--mark)}
.many td.slow{box-shadow:inset 0 0 0 2px var(--mark)}
.many td{font-size:0}
.map td:focus-visible,.map td.at{outline:3px solid var(--ink);border:2px solid var(--paper);
outline-offset:0;z-index:1;position:relative}
.many td.at{outline-width:2px}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;align-items:center;font-size:.85rem;
margin:.5rem 0;width:0;min-width:100%}
.bar{display:inline-block;width:10rem;height:.9rem;vertical-align:-.1rem;margin:0 .4rem;
background:linear-gradient(90deg,var(--scale))}
.key{display:inline-block;width:.9rem;height:.9rem;vertical-align:-.1rem;margin-right:.3rem}
.key.failed{background:repeating-linear-gradient(45deg,#c2185b 0 4px,#8e1045 4px 8px)}
.key.slow{border:3px solid var(--mark)}
.key.none{background:var(--none)}
#detail{flex:1 1 19rem;min-width:0;max-width:34rem;background:var(--panel);border-radius:8px;
padding:.75rem 1rem;font-size:.9rem}
#detail p{margin:.25rem 0}
#detail table{border-collapse:collapse;width:100%;margin:.5rem 0;font-variant-numeric:tabular-nums}
#detail td,#detail th{text-align:right;padding:.1rem 0 .1rem .6rem;font-weight:400;
border-top:1px solid var(--line)}
#detail th:first-child{text-align:left;padding-left:0}
#detail thead th{color:var(--soft);border:0}
#detail .bad{color:var(--fault)}
#detail .chosen{font-weight:700}
#detail svg{display:block;width:100%;height:auto;overflow:visible}
.devices{columns:18rem;font-size:.85rem;list-style:none;padding:0}
.devices li{margin:0}
@media (min-width:60rem){.scroll{max-height:none}#detail{position:sticky;top:1rem}
table.map{--room:calc(min(100vw,80rem) - 2rem - 24.5rem)}}
@media (max-width:30rem){.badge{width:3rem}.controls label{width:100%;
justify-content:space-between}}
@media print{:root{--ink:#000;--soft:#444;--paper:#fff;--panel:#fff;--line:#999;--none:#e3e3e8;
--fault:#b0124f;--slow:#8a4b00;--note:#3d5a80}*{print-color-adjust:exact;
-webkit-print-color-adjust:exact}.scroll{overflow:visible;max-height:none}
.show,.controls{display:none}
table.map{--cell:min(3rem,calc(16cm/var(--n) - 1px))}.map th,#detail{position:static}
li,tr,#detail{break-inside:avoid}}
)css";

const char *const kPageMap = R"html(<section><h2 id="title">Map</h2>
<noscript><p>The map needs scripts. <code>braid p2p --svg</code> draws one without.</p></noscript>
<form class="controls">
<label for="path">Path <select id="path"></select></label>
<label for="measure">Measure <select id="measure"></select></label>
<label for="size">Size <select id="size"></select></label>
</form>
<div class="board">
<div class="left"><div class="scroll" id="map"></div><div class="legend" id="legend"></div></div>
<div id="detail" role="region" aria-live="polite" aria-label="The pair that is pointed at"></div>
</div>
</section>
<section><details id="parts"><summary>Devices</summary><ul class="devices" id="devices"></ul>
</details></section>
)html";

const char *const kPageScript = R"js('use strict';
const D = JSON.parse(document.getElementById('data').textContent);
const N = D.devices.length, MANY = N > 16;
const MEASURED = 1, FIRST_FAULT = 3; // of D.outcomes
const byId = id => document.getElementById(id);
const rows = new Map(D.rows.map(r => [r[0] * N + r[1], r]));
const cells = new Map();
const stops = getComputedStyle(document.documentElement).getPropertyValue('--scale').trim()
  .split(',').map(c => [1, 3, 5].map(i => parseInt(c.trim().slice(i, i + 2), 16)));

// Measures: what a point or a path gives, and whether more of it is better.
const measures = [
  {name: 'bandwidth', unit: 'GB/s', field: 2, more: true},
  {name: 'latency', unit: '\u00b5s', field: 1, more: false},
  {name: 'bandwidth while all pairs run', unit: 'GB/s', field: 0, more: true},
];

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function figure(v) {
  if (v >= 1e6) return v.toExponential(2);
  return v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);
}
function sizeText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  for (; bytes >= 1024 && u < 4; ++u) bytes /= 1024;
  return (Number.isInteger(bytes) ? bytes : bytes.toFixed(1)) + ' ' + units[u];
}
function colour(t) {
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
  return stops[low].map((c, i) => Math.round(c + part * (stops[low + 1][i] - c)));
}

// The figure of a path: at the chosen size, or at the one that says most, the largest size for
// bandwidth and the smallest for latency. 0: there is none.
function ofPath(path, measure, size) {
  if (!path || path[0] !== MEASURED) return 0;
  if (measure.field === 0) return path[2];
  const points = path[3];
  let found = 0;
  for (let i = 0; i < points.length; i += 3) {
    const v = points[i + measure.field];
    if (!v || (size >= 0 && points[i] !== size)) continue;
    if (!found || measure.more) found = v;
  }
  return found;
}
function ofRow(row, path, measure, size) {
  if (path >= 0) return {value: ofPath(row[6][path], measure, size), path};
  let best = {value: 0, path: -1};
  row[6].forEach((p, i) => {
    const v = ofPath(p, measure, size);
    if (v && (!best.value || (measure.more ? v > best.value : v < best.value)))
      best = {value: v, path: i};
  });
  return best;
}
// The worst outcome of a path, or of all of them.
function outcome(row, path) {
  const of = p => p ? p[0] : 0;
  if (path >= 0) return of(row[6][path]);
  return Math.max(...row[6].map(p => of(p) === MEASURED ? 0 : of(p)));
}
const words = ['', '', 'n/a', 'wrong', 'crash', 'hung'];

// -- Verdicts: [severity, scope, source, destination, both ways, device, flow, link, sentence]. --
function covers(v, s, d) {
  if (v[1] === 0) return (v[2] === s && v[3] === d) || (v[4] && v[2] === d && v[3] === s);
  if (v[1] === 1) return (v[5] === s && v[6] !== 2) || (v[5] === d && v[6] !== 1);
  return v[1] === 3 || rows.get(s * N + d)[2] === v[7];
}
const about = new Map();
for (const [key, row] of rows)
  about.set(key, D.verdicts.filter(v => covers(v, row[0], row[1])));

// -- The map. --
const table = el('table', {class: 'map' + (MANY ? ' many' : ''), role: 'grid'});
table.createTHead();
const heads = {source: [], destination: []};
const numbered = (i, step) => i % step ? '' : String(i);
function build() {
  const top = table.tHead.insertRow();
  top.append(el('td'));
  const step = N > 32 ? 4 : N > 16 ? 2 : 1;
  for (let d = 0; d < N; ++d)
    top.append(heads.destination[d] = el('th', {scope: 'col', 'aria-label': 'to ' + d},
                                         numbered(d, step)));
  const body = el('tbody');
  for (let s = 0; s < N; ++s) {
    const tr = body.insertRow();
    tr.append(heads.source[s] = el('th', {scope: 'row', 'aria-label': 'from ' + s},
                                   numbered(s, step)));
    for (let d = 0; d < N; ++d) {
      const td = tr.insertCell();
      td.dataset.at = s * N + d;
      td.tabIndex = -1;
      if (s === d) td.className = 'self';
      cells.set(s * N + d, td);
    }
  }
  table.append(body);
  byId('map').append(table);
}
const state = {path: -1, measure: 0, size: -1, at: -1};

function draw() {
  const measure = measures[state.measure];
  const found = new Map();
  let low = Infinity, high = 0;
  for (const [key, row] of rows) {
    const f = ofRow(row, state.path, measure, state.size);
    found.set(key, f.value);
    if (f.value) { low = Math.min(low, f.value); high = Math.max(high, f.value); }
  }
  // Figures that are far apart are shown by their logarithms, so that small ones differ, too.
  const isLog = high > 20 * low, none = !high;
  const place = v => isLog ? Math.log(v / low) / Math.log(high / low)
                           : measure.more ? v / high : low / v;
  const share = v => isLog && !measure.more ? 1 - place(v) : place(v);
  for (const [key, row] of rows) {
    const td = cells.get(key), v = found.get(key), o = outcome(row, state.path);
    const failed = o >= FIRST_FAULT;
    const slow = !failed && about.get(key).some(a => a[0] === 1);
    td.className = (failed ? 'failed' : '') + (slow ? 'slow' : '') +
                   (key === state.at ? ' at' : '');
    td.textContent = failed ? words[o] : v ? figure(v) : words[o];
    const rgb = v && !failed ? colour(share(v)) : null;
    td.style.backgroundColor = rgb ? `rgb(${rgb})` : '';
    td.style.color = !rgb ? '' :
      (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 125 ? '#000' : '#fff');
  }
  const ends = isLog ? (measure.more ? [low, high] : [high, low])
                     : measure.more ? [0, high] : [0, low];
  const left = isLog ? figure(ends[0]) : measure.more ? '0' : 'longer';
  byId('legend').replaceChildren(
    el('span', {}, none ? 'no figures' : left, none ? '' : el('span', {class: 'bar'}),
       none ? '' : `${figure(ends[1])} ${measure.unit}${isLog ? ', by logarithm' : ''}`),
    el('span', {}, 'rows send, columns receive'),
    el('span', {}, el('span', {class: 'key failed'}), 'hung, crashed or wrong data'),
    el('span', {}, el('span', {class: 'key slow'}), 'slow by a verdict'),
    el('span', {}, el('span', {class: 'key none'}), 'not measured'));
  const by = state.path < 0 ? 'the fastest path of each pair' : D.paths[state.path];
  const at = measure.field === 0 ? ' at the largest size'
    : state.size >= 0 ? ' at ' + sizeText(D.sizes[state.size])
    : measure.more ? ' at the largest size' : ' at the smallest size';
  const what = `${measure.name[0].toUpperCase()}${measure.name.slice(1)} in ${measure.unit}`;
  byId('title').textContent = `${what}${at}, by ${by}`;
  table.setAttribute('aria-label', byId('title').textContent + '; rows send, columns receive');
  byId('size').disabled = measure.field === 0;
}

// -- The pair that is pointed at. --
function curve(row) {
  const measure = measures[state.measure], field = measure.field || 2;
  const lines = [];
  row[6].forEach((p, i) => {
    const points = [];
    if (p && p[0] === MEASURED)
      for (let k = 0; k < p[3].length; k += 3)
        if (p[3][k + field] && D.sizes[p[3][k]] > 0)
          points.push([Math.log2(D.sizes[p[3][k]]), Math.log10(p[3][k + field])]);
    if (points.length > 1) lines.push({path: i, points});
  });
  if (!lines.length) return '';
  const xs = lines.flatMap(l => l.points.map(p => p[0]));
  const ys = lines.flatMap(l => l.points.map(p => p[1]));
  const x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.floor(Math.min(...ys)),
        y1 = Math.max(Math.ceil(Math.max(...ys)), y0 + 1);
  const W = 320, H = 150, L = 44, B = 20;
  const px = x => (L + (W - L - 8) * (x1 > x0 ? (x - x0) / (x1 - x0) : 0)).toFixed(1);
  const py = y => (8 + (H - B - 8) * (1 - (y - y0) / (y1 - y0))).toFixed(1);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const add = (tag, attributes, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text) e.textContent = text;
    svg.append(e);
  };
  svg.setAttribute('viewBox', `0 0 ${W} ${H}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `${field === 1 ? 'latency' : 'bandwidth'} by size`);
  const small = {'font-size': 10, fill: 'currentColor'};
  const step = Math.max(1, Math.ceil((y1 - y0) / 5));
  for (let y = y0; y <= y1; y += step) {
    add('line', {x1: L, x2: W - 8, y1: py(y), y2: py(y), stroke: 'currentColor', opacity: .2});
    add('text', {...small, x: L - 4, y: +py(y) + 3, 'text-anchor': 'end'},
        y < -2 || y > 5 ? '1e' + y : String(+Math.pow(10, y).toFixed(3)));
  }
  add('text', {...small, x: L, y: H - 4}, sizeText(2 ** x0));
  add('text', {...small, x: W - 8, y: H - 4, 'text-anchor': 'end'}, sizeText(2 ** x1));
  const unit = field === 1 ? '\u00b5s' : 'GB/s';
  add('text', {...small, x: (L + W) / 2, y: H - 4, 'text-anchor': 'middle'}, `${unit} by size`);
  const chosen = ofRow(row, state.path, measure, state.size).path;
  for (const l of lines.sort((a, b) => (a.path === chosen) - (b.path === chosen)))
    add('polyline', {fill: 'none', stroke: l.path === chosen ? 'var(--focus)' : 'currentColor',
                     'stroke-width': l.path === chosen ? 2.5 : 1,
                     opacity: l.path === chosen ? 1 : .4,
                     points: l.points.map(p => px(p[0]) + ',' + py(p[1])).join(' ')});
  return svg;
}
function linkText(row) {
  const [, , kind, count, nominal, refused] = row;
  return `Link: ${D.links[kind]}${count ? `, ${count} NVLinks` : ''}` +
         `${nominal ? `, ${figure(nominal)} GB/s nominal` : ''}.` +
         `${refused ? ` No peer access: ${refused}.` : ''}`;
}
function detail(key) {
  const row = rows.get(key), box = byId('detail');
  if (!row) {
    const hint = 'Point at a cell, or move to one with the arrow keys, to see its figures.';
    box.replaceChildren(el('p', {}, rows.size ? hint : 'There are no pairs.'));
    return;
  }
  const chosen = ofRow(row, state.path, measures[state.measure], state.size).path;
  const body = el('tbody');
  row[6].forEach((p, i) => {
    if (!p) return;
    const tr = el('tr', i === chosen ? {class: 'chosen'} : {},
                  el('th', {scope: 'row', title: D.meanings[i]}, D.paths[i]));
    if (p[0] === MEASURED) {
      for (const m of [1, 0, 2]) {
        const v = ofPath(p, measures[m], -1);
        tr.append(el('td', {}, v ? figure(v) : '\u2013'));
      }
    } else {
      tr.append(el('td', {colspan: 3, class: p[0] >= FIRST_FAULT ? 'bad' : ''},
                   D.outcomes[p[0]].replace('-', ' ') + (p[1] ? ': ' + p[1] : '')));
    }
    body.append(tr);
  });
  const head = el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'Path'),
    el('th', {scope: 'col'}, '\u00b5s'), el('th', {scope: 'col'}, 'GB/s'),
    el('th', {scope: 'col'}, 'together')));
  box.replaceChildren(
    el('h3', {}, `Device ${row[0]} to device ${row[1]}`),
    el('p', {}, linkText(row)),
    ...about.get(key).map(v => el('p', {class: v[0] === 0 ? 'bad' : ''},
      v[8][0].toUpperCase() + v[8].slice(1) + '.')),
    el('table', {}, head, body), curve(row));
}
function select(key) {
  if (!rows.has(key) || key === state.at) return;
  const old = state.at;
  state.at = key;
  if (cells.has(old)) {
    cells.get(old).classList.remove('at');
    cells.get(old).tabIndex = -1;
    heads.source[Math.floor(old / N)].classList.remove('at');
    heads.destination[old % N].classList.remove('at');
  }
  cells.get(key).classList.add('at');
  cells.get(key).tabIndex = 0;
  heads.source[Math.floor(key / N)].classList.add('at');
  heads.destination[key % N].classList.add('at');
  detail(key);
}

// -- Controls. --
function fill(id, options, change) {
  const select = byId(id);
  for (const [value, text] of options) select.append(el('option', {value}, text));
  select.addEventListener('change', () => {
    change(Number(select.value));
    draw();
    detail(state.at);
  });
}
function listen() {
  table.addEventListener('pointerover', e => {
    const td = e.target.closest('td');
    if (td) select(Number(td.dataset.at));
  });
  table.addEventListener('focusin', e => {
    const td = e.target.closest('td');
    if (!td) return;
    const row = rows.get(Number(td.dataset.at));
    if (row)
      td.setAttribute('aria-label', `device ${row[0]} to device ${row[1]}: ${td.textContent}`);
    select(Number(td.dataset.at));
  });
  table.addEventListener('keydown', e => {
    const td = e.target.closest('td');
    const move = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
                  Home: [0, -N], End: [0, N]}[e.key];
    if (!td || !move) return;
    e.preventDefault();
    const at = Number(td.dataset.at), clamp = i => Math.min(Math.max(i, 0), N - 1);
    let s = clamp(Math.floor(at / N) + move[0]), d = clamp(at % N + move[1]);
    if (s === d) { // There is nothing from a device to itself.
      const sign = Math.sign(move[0] + move[1]);
      if (move[0]) s = s + sign >= 0 && s + sign < N ? s + sign : Math.floor(at / N);
      else d = Math.abs(move[1]) === 1 ? d + sign : d - sign;
      if (d < 0 || d >= N) d = at % N;
    }
    const next = cells.get(s * N + d);
    if (next && rows.has(s * N + d)) next.focus();
  });
  document.addEventListener('click', e => {
    const button = e.target.closest('.show');
    if (!button) return;
    const v = D.verdicts[Number(button.dataset.verdict)];
    const pair = [...rows.values()].find(r => covers(v, r[0], r[1]));
    if (!pair) return;
    const td = cells.get(pair[0] * N + pair[1]);
    td.scrollIntoView({block: 'center', inline: 'center'});
    td.focus({preventScroll: true});
  });
}

fill('path', [[-1, 'fastest of each pair'], ...D.paths.map((p, i) => [i, p])],
     v => { state.path = v; });
fill('measure', measures.map((m, i) => [i, m.name]), v => { state.measure = v; });
fill('size', [[-1, 'largest; of latency smallest'], ...D.sizes.map((s, i) => [i, sizeText(s)])],
     v => { state.size = v; });
for (const [i, [name, pci, node]] of D.devices.entries())
  byId('devices').append(el('li', {}, `${i}: ${name} ${pci}${node >= 0 ? ', NUMA ' + node : ''}`));
byId('parts').open = !MANY;
build();
listen();
draw();
detail(-1);
const first = D.rows[0];
if (first) cells.get(first[0] * N + first[1]).tabIndex = 0;
)js";

} // namespace braid
