"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.rows = data.rows.map(([kind, ...lines]) => ({ facets: data.kinds[kind], lines: lines.map((index) => data.lines[index]) }));
  const byId = (id) => document.getElementById(id);
  const select = (selector, within = document) => [...within.querySelectorAll(selector)];
  const create = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const filters = byId("filters");
  const chosenFilters = () => Object.fromEntries([...new FormData(filters)].filter(([, value]) => value));
  const kindMatches = (facets, chosen) => data.facets.every((name, index) => !chosen[name] || [facets[index]].flat().includes(chosen[name]));
  const rowMatches = (number, chosen) => kindMatches(data.rows[number].facets, chosen);
  const format = (value) => typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : value ?? "";

  // --- figures ---
  const tip = byId("tip");
  const showTip = (_, event, item, value) => {
    const figure = item && figures.find(({ element }) => element.contains(event.target));
    figures.forEach((other) => other.point(other === figure ? value?.s : null));
    if (!value || !figure) { tip.hidden = true; return; }
    const ofPoint = [[figure.bars ? value.name : value.s, ""], [figure.bars ? `${value.s}, ${figure.y}` : figure.x, format(value.x)]];
    if (!figure.bars) ofPoint.push([figure.y, format(value.y)]);
    if (value.low != null) ofPoint.push(["range", `${format(value.low)} to ${format(value.high)}`]);
    const lines = [...ofPoint, ...(value.row == null ? [] : data.rows[value.row].lines)];
    tip.replaceChildren(...lines.flatMap(([name, text]) => name && text ? [create("dt", name), create("dd", text)] : [create("dt", name || text, { class: "whole" })]));
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
  };
  const scrollToRow = (number) => {
    const elements = select(`[data-of~="${number}"]:is(details, tr)`).filter((element) => element.checkVisibility());
    const element = elements.findLast((candidate) => candidate.querySelector("a")) ?? elements[0]; // preferably with a link to the log
    if (!element) return;
    select(".found").forEach((previous) => previous.classList.remove("found"));
    element.classList.add("found");
    element.open = true;
    element.scrollIntoView({ block: "center" });
  };
  const withLinearAxes = (spec) => JSON.parse(JSON.stringify(spec, (_, part) => part?.type === "log" ? { type: "linear", zero: true } : part));
  let printWidth = 0; // width in pixels of a printed figure: with two figures side by side, their text stays legible
  class Figure {
    constructor(element, { marks, ...given }) {
      Object.assign(this, given, { element, hidden: new Set(), view: null, plot: element.querySelector(".plot"), title: element.querySelector("b").textContent });
      marks.s = marks.s.map((index) => given.names[index]);
      const columns = Object.keys(marks);
      this.allMarks = marks.x.map((_, index) => Object.fromEntries(columns.map((name) => [name, marks[name][index]])));
      this.buttons = select(".legend button", element);
      for (const button of this.buttons) {
        button.onpointerenter = button.onfocus = () => this.point(button.value);
        button.onpointerleave = button.onblur = () => this.point(null);
        button.onclick = () => { this.hidden.delete(button.value) || this.hidden.add(button.value); toAddress("push"); this.update(); };
      }
      element.querySelector("details").ontoggle = () => this.list();
      this.plot.style.minHeight = `${given.spec.height + 40}px`;
      new ResizeObserver(() => this.fit()).observe(this.plot);
    }
    get marks() { return this.matching.filter((mark) => !this.hidden.has(mark.s)); }
    get banded() { // many bands on top of each other are illegible: only the band of the pointed series is shown
      const names = [...new Set(this.marks.filter((mark) => mark.low != null).map((mark) => mark.s))];
      return names.length > data.bands ? names.filter((name) => name === this.pointed) : names;
    }
    point(name) {
      if ((this.pointed ?? null) === (name ?? null)) return;
      this.pointed = name;
      this.view?.signal("banded", this.banded).runAsync();
    }
    get height() { return this.bars ? data.step * new Set(this.marks.map((mark) => mark.name)).size : this.spec.height; }
    filter(chosen) {
      this.matching = this.allMarks.filter((mark) => mark.row == null || rowMatches(mark.row, chosen));
      if (this.axes !== chosen.axes && this.logarithmic) this.view = this.drawing = null;
      this.axes = chosen.axes;
      this.element.hidden = !this.matching.some((mark) => mark.k !== 2);
      const names = new Set(this.matching.map((mark) => mark.s));
      const labels = new Set(this.matching.flatMap((mark) => mark.row == null ? [] : data.rows[mark.row].facets.at(-1)));
      for (const button of this.buttons) button.hidden = !names.has(button.value);
      for (const badge of select(".badge", this.element)) badge.hidden = labelsOfRows.has(badge.textContent) && !labels.has(badge.textContent);
      this.update();
    }
    draw() {
      if (this.element.hidden) return;
      const spec = { ...(this.axes ? withLinearAxes(this.spec) : this.spec), description: this.plot.getAttribute("aria-label"), width: printWidth || this.plot.clientWidth, height: this.height, datasets: { marks: this.marks } };
      const options = { ast: true, actions: false, logLevel: 1, // no warnings: filters may leave a layer without marks
        renderer: "svg", defaultStyle: false, tooltip: showTip };
      this.drawing ??= vegaEmbed(this.plot, spec, options).then(({ view }) => {
        this.view = view;
        this.width = spec.width;
        this.plot.style.minHeight = "";
        this.plot.setAttribute("role", "img");
        this.element.dataset.drawn = "yes";
        view.addEventListener("click", (_, item) => item?.datum?.row != null && scrollToRow(item.datum.row));
        if (this.spec.layer.some((layer) => layer.params)) this.zoomByDragging(view);
        view.signal("banded", this.banded).runAsync();
        this.fit();
      });
    }
    fit() { // draws at the current width; meanwhile, and on paper, the style sheet scales the drawing
      const width = this.plot.clientWidth && (printWidth || this.plot.clientWidth);
      if (!this.view || !width || width === this.width) return;
      this.width = width;
      this.view.width(width).runAsync();
    }
    zoomByDragging(view) {
      let dragged;
      const setRange = (from, to) => view.signal("from", from).signal("to", to).runAsync();
      view.addSignalListener("brush", (_, { x }) => { // the brush is removed when the pointer is released
        if (!x && dragged && view.scale("x")(dragged[1]) - view.scale("x")(dragged[0]) > 6) setRange(...dragged);
        dragged = x;
      });
      this.plot.ondblclick = () => setRange(null, null);
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
      const shown = this.marks.filter((mark) => mark.k !== 1 && mark.k !== 2), axes = this.bars ? [["x", this.y]] : [["x", this.x], ["y", this.y]];
      const columns = [["s", "series"], ...(this.bars ? [["name", "bar"]] : []), ...axes, ["low", "lowest"], ["high", "highest"], ["text", "text"]]
        .filter(([name]) => shown.some((mark) => mark[name] != null && mark[name] !== ""));
      const table = create("table", "");
      table.createTHead().insertRow().append(...[...columns, ["", "run"]].map(([, title]) => create("th", title, { scope: "col" })));
      const body = table.createTBody();
      for (const mark of shown) body.insertRow().append(...columns.map(([name]) => create("td", format(mark[name]))), create("td", mark.row == null ? "" : data.rows[mark.row].lines.at(-1)[1]));
      details.querySelector("div").replaceChildren(table);
    }
  }
  const labelsOfRows = new Set(data.rows.flatMap((row) => row.facets.at(-1)));
  const figures = select("figure").map((element, index) => new Figure(element, data.figures[index]));
  const visible = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) figures.find(({ element }) => element === entry.target).draw();
  }, { rootMargin: "400px" });
  figures.forEach(({ element }) => visible.observe(element));
  for (const [moment, width] of [["beforeprint", 320], ["afterprint", 0]]) addEventListener(moment, () => {
    printWidth = width;
    figures.forEach((figure) => { figure.draw(); figure.fit(); });
  });

  // --- tables ---
  for (const table of select("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = create("button", head.textContent, { type: "button", title: "Click to sort" });
      head.replaceChildren(button);
      button.onclick = () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const valueOf = ({ cells }) => cells[column].dataset.value ?? cells[column].textContent;
        const compare = (left, right) => {
          const [first, second] = [valueOf(left), valueOf(right)];
          const unknown = (first === "–") - (second === "–"); // rows without a value are last
          return unknown || sign * (first - second || first.localeCompare(second, "en", { numeric: true }));
        };
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
      };
    });
  }

  // --- the address contains the filters, the axes, the hidden series, and the section, so that a selection can be sent ---
  let section = "";
  const toAddress = (how) => {
    const parameters = new URLSearchParams(chosenFilters());
    for (const figure of figures) for (const name of figure.hidden) parameters.append("hide", `${figure.title}|${name}`);
    if (section) parameters.set("at", section);
    history[`${how}State`](null, "", parameters.size ? `#${parameters}` : location.pathname + location.search);
  };
  const fromAddress = () => {
    const hash = location.hash.slice(1), parameters = new URLSearchParams(hash);
    section = byId(hash) ? hash : parameters.get("at") ?? "";
    if (!byId(hash)) { // the address of a section alone does not change the filters
      for (const control of select("select", filters)) control.value = [...control.options].some((option) => option.value === parameters.get(control.name)) ? parameters.get(control.name) : "";
      for (const figure of figures) figure.hidden = new Set(parameters.getAll("hide").filter((text) => text.startsWith(`${figure.title}|`)).map((text) => text.slice(figure.title.length + 1)));
    }
    apply();
    byId(section)?.scrollIntoView();
  };
  const headlines = select(".headlines li"), [firstHeadlines, furtherHeadlines] = select(".headlines");
  const apply = () => {
    const chosen = chosenFilters(), { axes, ...byFilter } = chosen, filtered = Object.keys(byFilter).length > 0;
    for (const part of select("[data-of]")) {
      const matches = part.dataset.of.split(" ").map((number) => rowMatches(number, chosen));
      part.hidden = !matches.includes(true);
      part.dataset.partly = String(!part.hidden && matches.includes(false));
      for (const count of select(".fitting", part)) count.textContent = format(matches.filter(Boolean).length);
    }
    const shown = headlines.filter((headline) => !headline.hidden); // the first three that match are not folded
    shown.forEach((headline, index) => (index < 3 ? firstHeadlines : furtherHeadlines)?.append(headline));
    if (furtherHeadlines) {
      byId("further").hidden = shown.length <= 3;
      select("summary", byId("further"))[0].textContent = `${shown.length - 3} more`;
    }
    for (const { tHead, tBodies, rows } of select("table.sortable")) { // hides columns without a value in the remaining rows
      const remaining = [...tBodies[0].rows].filter((row) => !row.hidden);
      [...tHead.rows[0].cells].forEach((_, column) => {
        const empty = filtered && remaining.every(({ cells }) => cells[column].textContent === "–");
        for (const { cells } of rows) cells[column].hidden = empty;
      });
    }
    figures.forEach((figure) => figure.filter(chosen));
    for (const part of select("main section")) {
      const contents = select("[data-of], figure", part);
      part.hidden = Boolean(part.dataset.of && part.hidden) || (contents.length > 0 && contents.every((content) => content.hidden));
    }
    for (const note of select(".unfiltered")) {
      const contents = select("[data-of]", note.parentElement);
      note.hidden = !filtered || (contents.length > 0 && !contents.some((content) => content.hidden || content.dataset.partly === "true"));
    }
    for (const link of select('nav a, a[href^="#section"]')) (link.closest("li") ?? link).hidden = byId(link.hash.slice(1)).hidden;
    const sum = (counts) => counts.reduce((total, [, count]) => total + count, 0), matching = sum(data.counts.filter(([kind]) => kindMatches(data.kinds[kind], chosen)));
    byId("count").textContent = `${format(matching)} of ${format(sum(data.counts))} ${data.what}`;
    const optionText = (name) => filters.elements[name].selectedOptions[0].textContent;
    byId("stated").textContent = filtered ? `Shown: ${Object.keys(byFilter).map((name) => `${data.titles[name]} ${optionText(name)}`).join(", ")} (${byId("count").textContent})` : "";
    byId("nothing").hidden = matching > 0 || !filtered;
  };
  filters.oninput = () => { toAddress("push"); apply(); };
  filters.onreset = (event) => { // resets now, not after this event, so that a print right after the click shows everything
    event.preventDefault();
    select("select", filters).forEach((control) => { control.value = ""; });
    figures.forEach((figure) => figure.hidden.clear());
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

  // --- a page that is written again while runs continue keeps its opened parts and its position ---
  const nameOf = (details) => (details.closest("figure") ?? details).querySelector("b, .name")?.textContent ?? details.id;
  if (kept?.open) {
    select("details").forEach((details) => { details.open = kept.open.includes(nameOf(details)); });
    scrollTo(0, kept.top);
  }
  if (data.written) {
    const time = new Date(1000 * data.written).toLocaleString();
    const showAge = () => { byId("age").textContent = data.every ? `Written ${Math.round(Date.now() / 1000 - data.written)} s ago. Runs are still in progress, and this page updates itself.` : `Finished at ${time}.`; };
    showAge();
    if (data.every) {
      setInterval(showAge, 1000);
      setTimeout(() => {
        history.replaceState({ top: scrollY, open: select("details[open]").map(nameOf) }, "");
        location.reload();
      }, 1000 * data.every);
    }
  }
})();
