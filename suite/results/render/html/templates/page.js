"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.rows = data.rows.map(([facets, ...lines]) => ({ facets: data.kinds[facets], lines: lines.map((at) => data.lines[at]) }));
  const byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (name, text, attributes = {}) => {
    const one = document.createElement(name);
    one.textContent = text;
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    return one;
  };
  const filters = byId("filters");
  const chosen = () => Object.fromEntries([...new FormData(filters)].filter(([, value]) => value));
  const fit = (facets, wanted) => data.facets.every((name, place) => !wanted[name] || [facets[place]].flat().includes(wanted[name]));
  const fits = (number, wanted) => fit(data.rows[number].facets, wanted);
  const number = (value) => typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : value ?? "";

  // --- figures ---
  const tip = byId("tip");
  const hover = (_, event, item, value) => {
    const figure = item && figures.find((one) => one.element.contains(event.target));
    figures.forEach((one) => one.point(one === figure ? value?.s : null));
    if (!value || !figure) { tip.hidden = true; return; }
    const own = [[figure.bars ? value.name : value.s, ""], [figure.bars ? `${value.s}, ${figure.y}` : figure.x, number(value.x)]];
    if (!figure.bars) own.push([figure.y, number(value.y)]);
    if (value.low != null) own.push(["from – to", `${number(value.low)} – ${number(value.high)}`]);
    const lines = [...own, ...(value.row == null ? [] : data.rows[value.row].lines)];
    tip.replaceChildren(...lines.flatMap(([name, text]) => name && text ? [make("dt", name), make("dd", text)] : [make("dt", name || text, { class: "whole" })]));
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
  };
  const find = (row) => {
    const found = all(`[data-of~="${row}"]:is(details, tr)`).filter((one) => one.checkVisibility());
    const one = found.findLast((each) => each.querySelector("a")) ?? found[0]; // from which a link leads to its files
    if (!one) return;
    all(".found").forEach((old) => old.classList.remove("found"));
    one.classList.add("found");
    one.open = true;
    one.scrollIntoView({ block: "center" });
  };
  const linear = (spec) => JSON.parse(JSON.stringify(spec, (_, part) => part?.type === "log" ? { type: "linear", zero: true } : part));
  let paper = 0; // pixels of a figure that is printed: two of them side by side keep letters that can be read
  class Figure {
    constructor(element, { marks, ...given }) {
      Object.assign(this, given, { element, hidden: new Set(), view: null, plot: element.querySelector(".plot"), title: element.querySelector("b").textContent });
      marks.s = marks.s.map((place) => given.names[place]);
      const columns = Object.keys(marks);
      this.all = marks.x.map((_, place) => Object.fromEntries(columns.map((name) => [name, marks[name][place]])));
      this.buttons = all(".legend button", element);
      for (const button of this.buttons) {
        button.onpointerenter = button.onfocus = () => this.point(button.value);
        button.onpointerleave = button.onblur = () => this.point(null);
        button.onclick = () => { this.hidden.delete(button.value) || this.hidden.add(button.value); toAddress("push"); this.update(); };
      }
      element.querySelector("details").ontoggle = () => this.list();
      this.plot.style.minHeight = `${given.spec.height + 40}px`;
      new ResizeObserver(() => this.fit()).observe(this.plot);
    }
    get marks() { return this.fitting.filter((one) => !this.hidden.has(one.s)); }
    get banded() { // of many bands over each other none can be read
      const names = [...new Set(this.marks.filter((one) => one.low != null).map((one) => one.s))];
      return names.length > data.bands ? names.filter((one) => one === this.pointed) : names;
    }
    point(name) {
      if ((this.pointed ?? null) === (name ?? null)) return;
      this.pointed = name;
      this.view?.signal("banded", this.banded).runAsync();
    }
    get height() { return this.bars ? data.step * new Set(this.marks.map((one) => one.name)).size : this.spec.height; }
    filter(wanted) {
      this.fitting = this.all.filter((one) => one.row == null || fits(one.row, wanted));
      if (this.axes !== wanted.axes && this.logarithmic) this.view = this.drawing = null;
      this.axes = wanted.axes;
      this.element.hidden = !this.fitting.some((one) => one.k !== 2);
      const there = new Set(this.fitting.map((one) => one.s)), labels = new Set(this.fitting.flatMap((one) => one.row == null ? [] : data.rows[one.row].facets.at(-1)));
      for (const button of this.buttons) button.hidden = !there.has(button.value);
      for (const badge of all(".badge", this.element)) badge.hidden = known.has(badge.textContent) && !labels.has(badge.textContent);
      this.update();
    }
    draw() {
      if (this.element.hidden) return;
      const spec = { ...(this.axes ? linear(this.spec) : this.spec), description: this.plot.getAttribute("aria-label"), width: paper || this.plot.clientWidth, height: this.height, datasets: { marks: this.marks } };
      const options = { ast: true, actions: false, logLevel: 1, // no warnings: a filter may leave a layer empty
        renderer: "svg", defaultStyle: false, tooltip: hover };
      this.drawing ??= vegaEmbed(this.plot, spec, options).then(({ view }) => {
        this.view = view;
        this.width = spec.width;
        this.plot.style.minHeight = "";
        this.plot.setAttribute("role", "img");
        this.element.dataset.drawn = "yes";
        view.addEventListener("click", (_, item) => item?.datum?.row != null && find(item.datum.row));
        if (this.spec.layer.some((one) => one.params)) this.drag(view);
        view.signal("banded", this.banded).runAsync();
        this.fit();
      });
    }
    fit() { // sharp at the width that there is now; until then, and on paper, the style sheet scales the drawing
      const width = this.plot.clientWidth && (paper || this.plot.clientWidth);
      if (!this.view || !width || width === this.width) return;
      this.width = width;
      this.view.width(width).runAsync();
    }
    drag(view) {
      let dragged;
      const range = (from, to) => view.signal("from", from).signal("to", to).runAsync();
      view.addSignalListener("brush", (_, { x }) => { // gone once the pointer is up
        if (!x && dragged && view.scale("x")(dragged[1]) - view.scale("x")(dragged[0]) > 6) range(...dragged);
        dragged = x;
      });
      this.plot.ondblclick = () => range(null, null);
    }
    update() {
      for (const button of this.buttons) button.setAttribute("aria-pressed", !this.hidden.has(button.value));
      if (this.element.hidden) return;
      if (this.view) this.view.height(this.height).data("marks", this.marks).signal("banded", this.banded).resize().runAsync();
      else if (this.element.dataset.drawn) this.draw();
      this.list();
    }
    list() {
      const details = this.element.querySelector("details");
      if (!details.open) return;
      const shown = this.marks.filter((one) => one.k !== 1 && one.k !== 2), places = this.bars ? [["x", this.y]] : [["x", this.x], ["y", this.y]];
      const columns = [["s", "series"], ...(this.bars ? [["name", "bar"]] : []), ...places, ["low", "from"], ["high", "to"], ["text", "text"]]
        .filter(([name]) => shown.some((one) => one[name] != null && one[name] !== ""));
      const table = make("table", "");
      table.createTHead().insertRow().append(...[...columns, ["", "run"]].map(([, title]) => make("th", title, { scope: "col" })));
      const body = table.createTBody();
      for (const one of shown) body.insertRow().append(...columns.map(([name]) => make("td", number(one[name]))), make("td", one.row == null ? "" : data.rows[one.row].lines.at(-1)[1]));
      details.querySelector("div").replaceChildren(table);
    }
  }
  const known = new Set(data.rows.flatMap((one) => one.facets.at(-1)));
  const figures = all("figure").map((element, place) => new Figure(element, data.figures[place]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) figures.find((one) => one.element === entry.target).draw();
  }, { rootMargin: "400px" });
  figures.forEach((one) => seen.observe(one.element));
  for (const [moment, width] of [["beforeprint", 320], ["afterprint", 0]]) addEventListener(moment, () => {
    paper = width;
    figures.forEach((one) => { one.draw(); one.fit(); });
  });

  // --- tables ---
  for (const table of all("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.onclick = () => {
        const falling = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling > 0 ? "ascending" : "descending");
        const value = ({ cells }) => cells[column].dataset.value ?? cells[column].textContent;
        const compare = (one, other) => {
          const [first, second] = [value(one), value(other)];
          const unknown = (first === "–") - (second === "–"); // which comes last
          return unknown || falling * (first - second || first.localeCompare(second, "en", { numeric: true }));
        };
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
      };
    });
  }

  // --- what is chosen: filters, axes, hidden series and a section stand in the address, so that a view can be sent ---
  let section = "";
  const toAddress = (how) => {
    const words = new URLSearchParams(chosen());
    for (const one of figures) for (const name of one.hidden) words.append("hide", `${one.title}|${name}`);
    if (section) words.set("at", section);
    history[`${how}State`](null, "", words.size ? `#${words}` : location.pathname + location.search);
  };
  const fromAddress = () => {
    const hash = location.hash.slice(1), words = new URLSearchParams(hash);
    section = byId(hash) ? hash : words.get("at") ?? "";
    if (!byId(hash)) { // a section alone leaves what is chosen
      for (const select of all("select", filters)) select.value = [...select.options].some((one) => one.value === words.get(select.name)) ? words.get(select.name) : "";
      for (const one of figures) one.hidden = new Set(words.getAll("hide").filter((each) => each.startsWith(`${one.title}|`)).map((each) => each.slice(one.title.length + 1)));
    }
    apply();
    byId(section)?.scrollIntoView();
  };
  const sentences = all(".headlines li"), [first, rest] = all(".headlines");
  const apply = () => {
    const wanted = chosen(), { axes, ...by } = wanted, filtered = Object.keys(by).length > 0;
    for (const part of all("[data-of]")) {
      const fitting = part.dataset.of.split(" ").map((one) => fits(one, wanted));
      part.hidden = !fitting.includes(true);
      part.dataset.partly = String(!part.hidden && fitting.includes(false));
      for (const count of all(".fitting", part)) count.textContent = number(fitting.filter(Boolean).length);
    }
    const told = sentences.filter((one) => !one.hidden); // the first that fit stand before the fold
    told.forEach((one, place) => (place < 3 ? first : rest)?.append(one));
    if (rest) {
      byId("further").hidden = told.length <= 3;
      all("summary", byId("further"))[0].textContent = `${told.length - 3} more`;
    }
    for (const { tHead, tBodies, rows } of all("table.sortable")) { // what no chosen row has needs no column
      const left = [...tBodies[0].rows].filter((one) => !one.hidden);
      [...tHead.rows[0].cells].forEach((_, column) => {
        const empty = filtered && left.every(({ cells }) => cells[column].textContent === "–");
        for (const { cells } of rows) cells[column].hidden = empty;
      });
    }
    figures.forEach((one) => one.filter(wanted));
    for (const part of all("main section")) {
      const told = all("[data-of], figure", part);
      part.hidden = Boolean(part.dataset.of && part.hidden) || (told.length > 0 && told.every((one) => one.hidden));
    }
    for (const note of all(".unfiltered")) {
      const told = all("[data-of]", note.parentElement);
      note.hidden = !filtered || (told.length > 0 && !told.some((one) => one.hidden || one.dataset.partly === "true"));
    }
    for (const link of all('nav a, a[href^="#section"]')) (link.closest("li") ?? link).hidden = byId(link.hash.slice(1)).hidden;
    const count = (counts) => counts.reduce((sum, [, more]) => sum + more, 0), fitting = count(data.counts.filter(([kind]) => fit(data.kinds[kind], wanted)));
    byId("count").textContent = `${number(fitting)} of ${number(count(data.counts))} ${data.what}`;
    byId("stated").textContent = filtered ? `Chosen: ${Object.entries(by).map(([name, value]) => `${name} ${value}`).join(", ")}; ${byId("count").textContent}` : "";
    byId("nothing").hidden = fitting > 0 || !filtered;
  };
  filters.oninput = () => { toAddress("push"); apply(); };
  filters.onreset = (event) => { // at once, not after this event: a print right after it shows all
    event.preventDefault();
    all("select", filters).forEach((one) => { one.value = ""; });
    figures.forEach((one) => one.hidden.clear());
    toAddress("push");
    apply();
  };
  addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    section = link.hash.slice(1);
    toAddress("push");
    byId(section)?.scrollIntoView();
  });
  addEventListener("popstate", fromAddress);
  const kept = history.state;
  if (!location.hash && data.start) history.replaceState(null, "", `#${new URLSearchParams(data.start)}`);
  fromAddress();

  // --- a page that is written again while runs go on: what was opened stays so ---
  const name = (one) => (one.closest("figure") ?? one).querySelector("b, .name")?.textContent ?? one.id;
  if (kept?.open) {
    all("details").forEach((one) => { one.open = kept.open.includes(name(one)); });
    scrollTo(0, kept.top);
  }
  if (data.written) {
    const when = new Date(1000 * data.written).toLocaleString();
    const age = () => { byId("age").textContent = data.every ? `Written ${Math.round(Date.now() / 1000 - data.written)} s ago, while runs went on.` : `Finished at ${when}.`; };
    age();
    if (data.every) {
      setInterval(age, 1000);
      setTimeout(() => {
        history.replaceState({ top: scrollY, open: all("details[open]").map(name) }, "");
        location.reload();
      }, 1000 * data.every);
    }
  }
})();
