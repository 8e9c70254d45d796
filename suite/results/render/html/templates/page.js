"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (name, text, attributes = {}) => {
    const one = document.createElement(name);
    one.textContent = text;
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    return one;
  };
  const filters = byId("filters");
  const chosen = () => Object.fromEntries(new FormData(filters));

  // What is chosen stands in the address, so that a view can be sent.
  const fromAddress = () => {
    const words = new URLSearchParams(location.hash.slice(1));
    for (const select of filters.elements) {
      const wanted = words.get(select.name) ?? "";
      if (select.tagName === "SELECT") select.value = [...select.options].some((one) => one.value === wanted) ? wanted : "";
    }
  };
  const toAddress = () => {
    const words = new URLSearchParams(Object.entries(chosen()).filter(([, value]) => value));
    history.replaceState(null, "", words.size ? `#${words}` : location.pathname + location.search);
  };
  const fits = (number, wanted) => data.facets.every((name, place) => {
    const value = data.rows[number].facets[place];
    return !wanted[name] || (Array.isArray(value) ? value.includes(wanted[name]) : value === wanted[name]);
  });

  // --- figures ---
  const number = (value) => typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : value ?? "";
  const tip = byId("tip");
  const hover = (_, event, item, value) => {
    const figure = item && figures.find((one) => one.element.contains(event.target));
    if (!value || !figure) { tip.hidden = true; return; }
    const bars = figure.kinds.bars;
    const own = [[bars ? value.name : value.s, ""], [bars ? `${value.s}, ${figure.y}` : figure.x, number(value.x)]];
    if (!bars) own.push([figure.y, number(value.y)]);
    if (value.low != null) own.push(["from – to", `${number(value.low)} – ${number(value.high)}`]);
    const lines = [...own, ...(value.row == null ? [] : data.rows[value.row].lines)];
    tip.replaceChildren(...lines.flatMap(([name, text]) => name && text ? [make("dt", name), make("dd", text)] : [make("dt", name || text, { class: "whole" })]));
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
  };
  const linear = (part) => {
    if (Array.isArray(part)) return part.map(linear);
    if (part === null || typeof part !== "object") return part;
    if (part.type === "log") return { type: "linear", zero: true };
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, linear(value)]));
  };
  class Figure {
    constructor(element, given) {
      const { marks, ...rest } = given;
      marks.s = marks.s.map((place) => given.names[place]);
      Object.assign(this, rest, { element, hidden: new Set(), drawn: null });
      const names = Object.keys(marks);
      this.all = marks.x.map((_, place) => Object.fromEntries(names.map((name) => [name, marks[name][place]])));
      const legend = element.querySelector(".legend");
      for (const one of given.legend) {
        const button = make("button", "", { type: "button", "aria-pressed": "true" });
        const line = make("i", "", { "aria-hidden": "true" });
        line.style.borderTop = `3px ${one.line} ${one.colour}`;
        button.append(line, one.name);
        button.onclick = () => {
          const shown = this.hidden.delete(one.name) || !this.hidden.add(one.name);
          button.setAttribute("aria-pressed", String(shown));
          this.update();
        };
        legend.append(button);
      }
      element.querySelector("details").ontoggle = () => this.list();
    }
    get height() { return data.step * new Set(this.marks.map((one) => one.name)).size; }
    get marks() { return this.fitting.filter((one) => !this.hidden.has(one.s)); }
    filter(wanted) {
      this.fitting = this.all.filter((one) => one.row == null || fits(one.row, wanted));
      const axes = wanted.axes || "logarithmic";
      if (this.axes !== axes && this.kinds.logarithmic) this.view = this.drawn = null;
      this.axes = axes;
      this.element.hidden = !this.fitting.length;
      const there = new Set(this.fitting.map((one) => one.s));
      [...this.element.querySelectorAll(".legend button")].forEach((button, place) => { button.hidden = !there.has(this.legend[place].name); });
      this.update();
    }
    async draw() {
      if (this.drawn || this.element.hidden) return this.drawn;
      const spec = this.axes === "linear" ? linear(this.spec) : this.spec;
      const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: hover };
      const values = { ...spec, datasets: { marks: this.marks }, ...(this.kinds.bars ? { height: this.height } : {}) };
      this.drawn = vegaEmbed(this.element.querySelector(".plot"), values, options).then((made) => {
        this.view = made.view;
        this.element.dataset.drawn = "yes";
      });
      return this.drawn;
    }
    update() {
      if (this.element.hidden) return;
      if (this.view && this.kinds.bars) this.view.height(this.height);
      if (this.view) this.view.data("marks", this.marks).resize().runAsync();
      else if (this.element.dataset.drawn) this.draw();
      this.list();
    }
    list() {
      const details = this.element.querySelector("details");
      if (!details.open) return;
      const bars = this.kinds.bars;
      const columns = [["s", "series"], ["name", "bar"], ["x", bars ? this.y : this.x], ["y", this.y], ["low", "from"], ["high", "to"], ["text", "text"]]
        .filter(([name]) => this.marks.some((one) => one[name] != null && one[name] !== "") && !(bars && name === "y") && !(name === "name" && !bars));
      const table = make("table", "");
      const head = table.createTHead().insertRow();
      head.append(...columns.map(([, title]) => make("th", title, { scope: "col" })), make("th", "run", { scope: "col" }));
      const body = table.createTBody();
      for (const one of this.marks) {
        if (one.ideal) continue;
        const row = body.insertRow();
        for (const [name] of columns) row.insertCell().textContent = number(one[name]);
        row.insertCell().textContent = one.row == null ? "" : data.rows[one.row].lines.at(-1)[1];
      }
      details.querySelector("div").replaceChildren(table);
    }
  }
  const figures = [...document.querySelectorAll("figure")].map((element, place) => new Figure(element, data.figures[place]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) figures.find((one) => one.element === entry.target).draw();
  }, { rootMargin: "400px" });
  figures.forEach((one) => seen.observe(one.element));
  addEventListener("beforeprint", () => figures.forEach((one) => one.draw()));

  // --- tables ---
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.onclick = () => {
        const falling = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling > 0 ? "ascending" : "descending");
        const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const compare = (one, other) => {
          const [first, second] = [value(one), value(other)];
          if (first === "–" || second === "–") return (first === "–") - (second === "–"); // what is not known comes last
          const numbers = [parseFloat(first), parseFloat(second)];
          const known = row => row.cells[column].dataset.value !== undefined;
          return falling * (known(one) && known(other) ? numbers[0] - numbers[1] : first.localeCompare(second, "en", { numeric: true }));
        };
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
      };
    });
  }

  const apply = () => {
    const wanted = chosen();
    const parts = document.querySelectorAll("[data-of]");
    for (const part of parts) part.hidden = !part.dataset.of.split(" ").some((one) => fits(Number(one), wanted));
    figures.forEach((one) => one.filter(wanted));
    for (const section of document.querySelectorAll("main section")) {
      const told = section.querySelectorAll("[data-of], figure");
      section.hidden = told.length > 0 && [...told].every((one) => one.hidden);
    }
    const runs = [...document.querySelectorAll(data.counted)];
    byId("count").textContent = `${runs.filter((one) => !one.hidden).length} of ${runs.length} ${data.what}`;
  };
  filters.oninput = () => { toAddress(); apply(); };
  filters.onreset = () => setTimeout(() => { toAddress(); apply(); });
  addEventListener("hashchange", () => { fromAddress(); apply(); });
  if (!location.hash && data.start) history.replaceState(null, "", `#${new URLSearchParams(data.start)}`);
  fromAddress();
  apply();

  // --- a page that is written again while runs go on ---
  if (data.written) {
    const age = () => { byId("age").textContent = `Written ${Math.round(Date.now() / 1000 - data.written)} s ago, while runs went on.`; };
    age();
    setInterval(age, 1000);
    setTimeout(() => location.reload(), 1000 * data.every);
  }
})();
