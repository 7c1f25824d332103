// A plot of bits per key by rate, as SVG.

const COLORS = ["#c0392b", "#1f78b4", "#2e8b57", "#b8860b", "#8e44ad", "#7f8c8d"];
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [660, 400, 40, 168, 12, 44];

function svg(name, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

/** Draws a curve for each kind, the lower bound, and a mark at `here`. */
export function plot(kinds, rates, curves, here) {
    const most = Math.max(...rates.map((rate) => -Math.log2(rate)));
    const top = Math.ceil(Math.min(Math.max(...curves.flat().filter((bits) => bits !== null && Number.isFinite(bits))), most * 2.6) / 5) * 5;
    const x = (rate) => LEFT + (-Math.log2(rate) - 1) / (most - 1) * (WIDTH - LEFT - RIGHT);
    const y = (bits) => HEIGHT - BOTTOM - Math.min(bits, top) / top * (HEIGHT - TOP - BOTTOM);
    const description = `Bits per key of ${kinds.join(", ")} by false positive rate, with the lower bound`;
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": description });
    for (let bits = 0; bits <= top; bits += 5) {
        drawing.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(bits), y2: y(bits) }),
            svg("text", { x: LEFT - 6, y: y(bits) + 4, "text-anchor": "end" }, String(bits)));
    }
    for (const [rate, name] of [[0.1, "10 %"], [0.01, "1 %"], [0.001, "0.1 %"], [1e-4, "10⁻⁴"], [1e-5, "10⁻⁵"], [1e-6, "10⁻⁶"]]) {
        drawing.append(svg("text", { x: x(rate), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, name));
    }
    drawing.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "false positive rate"));
    drawing.append(svg("path", { class: "curve bound", d: path(rates.map((rate) => [x(rate), y(-Math.log2(rate))])) }));
    if (here >= rates[rates.length - 1] && here <= rates[0]) {
        drawing.append(svg("line", { class: "bound", x1: x(here), x2: x(here), y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    const labels = [["lower bound", y(most), "currentColor"]];
    curves.forEach((curve, i) => {
        const points = curve.map((bits, j) => (bits === null ? null : [x(rates[j]), y(bits)])).filter(Boolean);
        if (points.length === 0) return;
        const color = COLORS[i % COLORS.length];
        drawing.append(svg("path", { class: "curve", d: path(points), stroke: color }));
        labels.push([kinds[i], points[points.length - 1][1], color]);
    });
    labels.sort((a, b) => a[1] - b[1]);
    let last = -Infinity;
    for (const [name, at, color] of labels) {
        last = Math.max(at + 4, last + 16);
        drawing.append(svg("rect", { x: WIDTH - RIGHT + 8, y: last - 9, width: 9, height: 9, rx: 2, fill: color }),
            svg("text", { class: "label", x: WIDTH - RIGHT + 22, y: last }, name));
    }
    return drawing;
}

function path(points) {
    return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}
