// Draws the cells of a filter on a canvas: rows flow from left to right, and wide rows wrap.

const [BIT, HIGH, GAP, LABEL, SPACE, MARGIN, NAMES] = [11, 20, 2, 14, 12, 12, 96];

/** Returns "1 cell" or "2 cells". */
export function counted(count, noun) {
    return `${count} ${count === 1 ? noun : plural(noun)}`;
}

function plural(noun) {
    return noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
}

export class Drawing {
    /** `tell` gets a sentence about the cell under the pointer. */
    constructor(canvas, frame, tell) {
        this.canvas = canvas;
        this.frame = frame;
        this.tables = [];
        this.changed = new Set();
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
        new ResizeObserver(() => this.resize()).observe(frame);
        canvas.addEventListener("pointermove", (event) => tell(this.describe(event.offsetX, event.offsetY)));
        canvas.addEventListener("pointerleave", () => tell(""));
    }

    setTables(tables, changed = []) {
        this.tables = tables;
        this.step = undefined;
        this.changed = new Set(changed.map(([table, cell]) => `${table}:${cell}`));
        this.resize();
    }

    setChanged(changed) {
        this.changed = new Set(changed.map(([table, cell]) => `${table}:${cell}`));
        this.draw();
    }

    /** Marks the cells that a step reads, and scrolls to them. */
    setStep(step) {
        this.step = step;
        this.draw();
        const first = step?.cells.length ? this.boxes[step.table][step.cells[0]] : undefined;
        if (!first) return;
        const { scrollTop, clientHeight } = this.frame;
        if (first.y < scrollTop || first.y + HIGH > scrollTop + clientHeight) this.frame.scrollTop = first.y - clientHeight / 3;
    }

    rowOf(table, cell) {
        return `${this.tables[table].rowName} ${this.tables[table].row[cell]}`;
    }

    resize() {
        const width = this.frame.clientWidth;
        if (width === 0) return;
        const height = this.layOut(width);
        const scale = devicePixelRatio || 1;
        this.canvas.width = Math.round(width * scale);
        this.canvas.height = Math.round(height * scale);
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.scale = scale;
        this.draw();
    }

    static widthOf(table, cell) {
        if (table.width[cell] === 1) return BIT;
        return Math.max(1, Math.ceil(table.width[cell] / 4)) * 8 + 8;
    }

    /** Gives each cell its box. Returns the height. */
    layOut(width) {
        let y = MARGIN;
        this.labels = [];
        this.boxes = this.tables.map((table) => {
            this.labels.push([MARGIN, y + 12, table.name === plural(table.rowName) ? table.name : `${table.name}: ${plural(table.rowName)}`, true]);
            y += 22;
            const boxes = [];
            let [x, bottom, start] = [MARGIN, y, 0];
            while (start < table.row.length) {
                let end = start;
                let total = 0;
                while (end < table.row.length && table.row[end] === table.row[start]) {
                    total += Drawing.widthOf(table, end) + GAP;
                    end += 1;
                }
                const room = width - 2 * MARGIN;
                if (x > MARGIN && x + Math.min(total, room) > width - MARGIN) {
                    x = MARGIN;
                    y = bottom + SPACE;
                }
                this.labels.push([x, y + 10, String(table.row[start]), false]);
                // A row of several lines has one for each role, with its name before it if there is room.
                const names = total > room && table.roles.length > 1 && width > 600;
                const left = names ? x + NAMES : x;
                let [cx, cy] = [left, y + LABEL];
                if (names) this.labels.push([x, cy + 14, table.roles[table.role[start]], false]);
                for (let cell = start; cell < end; cell += 1) {
                    const w = Drawing.widthOf(table, cell);
                    const newRole = cell > start && table.role[cell] !== table.role[cell - 1] && total > room;
                    if (newRole || cx + w > width - MARGIN) {
                        cx = left;
                        cy += HIGH + GAP;
                        if (names && newRole) this.labels.push([x, cy + 14, table.roles[table.role[cell]], false]);
                    }
                    boxes.push({ x: cx, y: cy, w });
                    cx += w + GAP;
                }
                bottom = Math.max(bottom, cy + HIGH);
                x = total > room ? width : cx + SPACE;
                start = end;
            }
            y = bottom + SPACE * 1.5;
            return boxes;
        });
        return y + MARGIN;
    }

    colors() {
        const style = getComputedStyle(document.documentElement);
        const of = (name) => style.getPropertyValue(name).trim();
        return {
            text: of("--text"), soft: of("--soft"), line: of("--line"), card: of("--card"), accent: of("--accent"),
            tint: of("--tint"), good: of("--good"), bad: of("--bad"), warm: of("--warm"), on: of("--on-accent"),
        };
    }

    draw() {
        if (!this.boxes) return;
        const colors = this.colors();
        const context = this.canvas.getContext("2d");
        context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        for (const [x, y, text, title] of this.labels) {
            context.font = title ? "600 13px system-ui, sans-serif" : "10px system-ui, sans-serif";
            context.fillStyle = title ? colors.text : colors.soft;
            context.textAlign = "left";
            context.fillText(text, x, y);
        }
        context.font = "11px ui-monospace, Menlo, Consolas, monospace";
        context.textAlign = "center";
        this.tables.forEach((table, t) => this.boxes[t].forEach((box, cell) => this.drawCell(context, colors, table, t, box, cell)));
        if (this.step) this.drawStep(context, colors);
        const cells = this.tables.reduce((total, table) => total + table.value.length, 0);
        this.canvas.setAttribute("aria-label", `${cells} cells of the filter${this.step ? `; marked: ${this.step.what}` : ""}`);
    }

    drawCell(context, colors, table, t, { x, y, w }, cell) {
        const [width, value] = [table.width[cell], table.value[cell]];
        const changed = this.changed.has(`${t}:${cell}`);
        const full = value !== 0n;
        context.fillStyle = changed ? colors.warm : full ? (width === 1 ? colors.accent : colors.tint) : colors.card;
        context.fillRect(x, y, w, HIGH);
        context.strokeStyle = colors.line;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, w - 1, HIGH - 1);
        if (width > 1) {
            context.fillStyle = changed ? colors.card : full ? colors.text : colors.soft;
            context.fillText(full ? value.toString(16) : "·", x + w / 2, y + 14);
        }
    }

    drawStep(context, colors) {
        context.lineWidth = 2.5;
        context.strokeStyle = this.step.matches ? colors.good : colors.bad;
        const boxes = [...this.step.cells].map((cell) => this.boxes[this.step.table][cell]);
        for (const { x, y, w } of boxes) context.strokeRect(x - 1, y - 1, w + 2, HIGH + 2);
        const rows = new Set([...this.step.cells].map((cell) => this.tables[this.step.table].row[cell]));
        if (rows.size < 2 || boxes.length > 16) return;
        context.lineWidth = 1.25;
        context.beginPath();
        boxes.forEach(({ x, y, w }, i) => (i ? context.lineTo(x + w / 2, y + HIGH / 2) : context.moveTo(x + w / 2, y + HIGH / 2)));
        context.stroke();
    }

    describe(x, y) {
        for (const [t, boxes] of (this.boxes ?? []).entries()) {
            const cell = boxes.findIndex((box) => x >= box.x && x < box.x + box.w + GAP && y >= box.y && y < box.y + HIGH);
            if (cell < 0) continue;
            const table = this.tables[t];
            const value = table.width[cell] === 0 ? "empty" : `${table.value[cell].toString(16)} (hexadecimal), ${table.width[cell]} bits`;
            return `${this.rowOf(t, cell)}, ${table.roles[table.role[cell]]}: ${value}`;
        }
        return "";
    }

    legend() {
        const colors = this.colors();
        return [[colors.accent, "set bit"], [colors.tint, "value"], [colors.card, "empty or 0"], [colors.warm, "changed just now"],
            [colors.good, "outlined: read, and matches"], [colors.bad, "outlined: read, and does not match"]];
    }
}
