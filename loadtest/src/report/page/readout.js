'use strict';
// Figures at the pointer, taken from the table below each plot. The page is whole without it.
for (const figure of document.querySelectorAll('figure.plot')) {
  const svg = figure.querySelector('.frame > svg');
  const rows = [...figure.querySelectorAll('tbody tr')].map(row => ({
    place: Number(row.dataset.x),
    label: row.cells[0].textContent,
    cells: [...row.cells].slice(1).map(cell => cell.textContent),
  }));
  if (!svg || rows.length === 0) continue;
  const columns = [...figure.querySelectorAll('.legend li[data-column] .value')];
  const moment = figure.querySelector('.legend .moment .value');
  const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  cursor.setAttribute('class', 'cursor');
  cursor.setAttribute('y1', '22');
  cursor.setAttribute('y2', svg.getAttribute('height') - 26);
  let shown = -1;

  const nearest = (place, column) => {
    let best = -1;
    rows.forEach((row, number) => {
      if (column !== undefined && row.cells[column] === '') return;
      if (best < 0 || Math.abs(row.place - place) < Math.abs(rows[best].place - place)) best = number;
    });
    return best;
  };
  const show = number => {
    shown = number;
    const place = rows[number].place;
    moment.textContent = rows[number].label;
    columns.forEach((value, column) => {
      // Curves may be sampled at different moments: the nearest is shown.
      const row = nearest(place, column);
      value.textContent = row < 0 ? '' : rows[row].cells[column];
    });
    cursor.setAttribute('x1', `${place * 100}%`);
    cursor.setAttribute('x2', `${place * 100}%`);
    svg.append(cursor);
  };
  const hide = () => {
    shown = -1;
    cursor.remove();
    for (const value of [...columns, moment]) value.textContent = '';
  };

  svg.tabIndex = 0;
  figure.querySelector('.legend').setAttribute('aria-live', 'polite');
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    show(nearest((event.clientX - box.left) / box.width));
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(Math.min(rows.length - 1, Math.max(0, shown + step)));
  });
}
