(() => {
  const parse = colour => (colour.match(/[\d.]+/g) || []).slice(0, 3).map(Number);
  const luminance = colour => {
    const [r, g, b] = parse(colour).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (colour.startsWith('rgb(')) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const shown = element => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== 'hidden';
  const root = document.documentElement;

  const plots = [...document.querySelectorAll('figure.plot')].map(figure => {
    const card = figure.getBoundingClientRect();
    const svg = figure.querySelector('.frame > svg');
    const box = svg ? svg.getBoundingClientRect() : { width: 0, height: 0, left: 0, top: 0 };
    const labels = [...figure.querySelectorAll('.frame text')].filter(shown)
      .map(label => ({ text: label.textContent, box: label.getBoundingClientRect() }));
    const overlaps = [];
    labels.forEach((one, i) => labels.slice(i + 1).forEach(other => {
      const [a, b] = [one.box, other.box];
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3) {
        overlaps.push(`${one.text} / ${other.text}`);
      }
    }));
    return {
      id: figure.id, left: box.left, top: box.top, width: box.width, height: box.height, labels: labels.length,
      curves: [...figure.querySelectorAll('.curves path')].map(path => {
        const size = path.getBoundingClientRect();
        return { width: size.width, contrast: contrast(getComputedStyle(path).stroke, behind(figure)) };
      }),
      overlaps,
      outside: labels.filter(l => l.box.left < card.left || l.box.right > card.right).map(l => l.text),
    };
  });
  const faint = [...document.querySelectorAll('p, li, th, td, h1, h2, h3, dt, dd, span, b, strong, summary, .frame text')]
    .filter(e => shown(e) && e.textContent.trim() !== '')
    .map(e => {
      const style = getComputedStyle(e);
      const colour = e instanceof SVGElement ? style.fill : style.color;
      return { text: e.textContent.trim().slice(0, 40), contrast: contrast(colour, behind(e)) };
    })
    .filter(e => e.contrast < 4.5);
  return {
    overflow: root.scrollWidth - root.clientWidth,
    wide: [...document.body.querySelectorAll('*')].filter(e => !e.closest('.scroll') && !e.closest('.curves') &&
      shown(e) && e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.outerHTML.slice(0, 120)).slice(0, 5),
    background: getComputedStyle(document.body).backgroundColor,
    plots, faint: faint.slice(0, 5),
  };
})()
