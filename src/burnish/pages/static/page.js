// Draws the charts, sorts and filters, loads what is folded, and follows a run that goes on.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = matchMedia("(max-width: 640px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function painted(trace) {
    const one = { ...trace, marker: { ...trace.marker }, line: { ...trace.line } };
    const colours = {
      train: "--chart-1", holdout: "--chart-2", best: "--chart-1", accepted: "--good", kept: "--open",
      rejected: "--chart-4", edge: "--muted", noise: "--chart-4", bar: "--chart-1",
      "series-0": "--chart-1", "series-1": "--chart-2", "series-2": "--chart-3", "series-3": "--chart-4",
    };
    const name = colours[trace.meta];
    if (name) { one.marker.color = colour(name); one.line.color = colour(name); }
    if (trace.meta === "accepted" && one.marker.line) one.marker.line = { ...one.marker.line, color: colour("--good") };
    if (trace.type === "heatmap") {
      one.colorscale = [[0, colour("--bad")], [0.5, colour("--open-back")], [1, colour("--good")]];
      one.showscale = false; // the page has one below the chart
      delete one.marker; delete one.line;
    }
    if (trace.type === "bar") delete one.line;
    delete one.meta;
    return one;
  }

  function draw(place) {
    const figure = JSON.parse(document.getElementById(`chart-${place.dataset.chart}`).textContent);
    const bars = figure.words ? figure.words === "y" : figure.data[0].type !== "scatter" || Boolean(figure.range);
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
    const layout = {
      height: figure.height || (narrow.matches ? 280 : 380), autosize: true,
      margin: { l: 50, r: 15, t: 10, b: 45 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--text"), size: 13, family: "system-ui, sans-serif" },
      xaxis: { ...axis, title: { text: figure.x }, ...(figure.range ? { range: figure.range } : {}), ...(figure.words === "x" ? { type: "category" } : {}) }, yaxis: { ...axis, title: { text: figure.y }, ...(bars ? { autorange: figure.data[0].type === "heatmap" ? "reversed" : true, type: "category" } : {}) },
      barmode: "stack", legend: { orientation: "h", yref: "container", y: 1, yanchor: "top" }, hovermode: "closest",
    };
    for (const name of figure.whole || []) {
      const numbers = figure.data.flatMap((trace) => trace[name[0]]).filter((each) => each !== null);
      // There is no trial 0.5: few numbers have a tick each, many are spaced by Plotly as it likes.
      if (Math.max(...numbers) - Math.min(...numbers) <= 10) layout[name].dtick = 1;
    }
    Plotly.react(place, figure.data.map(painted), layout, { displayModeBar: false, responsive: true });
  }

  const soon = "IntersectionObserver" in window
    ? new IntersectionObserver((seen) => seen.filter((e) => e.isIntersecting).forEach((e) => { soon.unobserve(e.target); draw(e.target); }), { rootMargin: "300px" })
    : null;
  let library = null;
  function plotly() {
    if (typeof Plotly !== "undefined") return Promise.resolve();
    library ||= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.onload = done; script.onerror = failed;
      script.src = document.body.dataset.plotly;
      document.head.append(script);
    });
    return library;
  }
  async function charts(within) {
    const places = all("[data-chart]", within);
    if (!places.length) return;
    try {
      await plotly();
    } catch {
      return; // the tables have the same numbers
    }
    places.filter((place) => place.isConnected).forEach((place) => (soon ? soon.observe(place) : draw(place)));
  }
  dark.addEventListener("change", () => all("[data-chart].js-plotly-plot").forEach(draw));

  function sortable(within) {
    all("table[data-sortable]", within).forEach((table) => {
      all("thead th", table).forEach((head, index) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
          const up = head.getAttribute("aria-sort") !== "ascending";
          all("thead th", table).forEach((each) => each.removeAttribute("aria-sort"));
          head.setAttribute("aria-sort", up ? "ascending" : "descending");
          const key = (row) => row.cells[index].dataset.value || row.cells[index].textContent.trim();
          const number = (text) => parseFloat(text.replace(/[^0-9.eE+-]/g, ""));
          const order = (a, b) => {
            const [x, y] = [number(key(a)), number(key(b))];
            return Number.isNaN(x) || Number.isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
          };
          const body = table.tBodies[0];
          [...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a))).forEach((row) => body.append(row));
        });
      });
    });
  }

  function filters(within) {
    all("[data-filters]", within).forEach((bar) => {
      const list = document.getElementById(bar.dataset.filters);
      const items = () => [...list.children];
      const apply = () => {
        const words = (bar.querySelector("[data-find]")?.value || "").toLowerCase();
        const picks = all("[data-by]", bar).filter((pick) => pick.value);
        let shown = 0;
        items().forEach((item) => {
          const fits = (item.dataset.text || "").includes(words)
            && picks.every((pick) => (item.dataset[pick.dataset.by] || "").split("\n").includes(pick.value));
          item.hidden = !fits;
          shown += fits ? 1 : 0;
        });
        const count = bar.querySelector("[data-count]");
        if (count) count.textContent = shown === items().length ? "" : `${shown} of ${items().length} shown`;
      };
      bar.addEventListener("input", apply);
      bar.addEventListener("change", apply);
      apply();
    });
  }

  async function load(fold) {
    const source = fold.dataset.src;
    delete fold.dataset.src;
    const note = fold.querySelector(":scope > p");
    try {
      const answer = await fetch(source, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      note.replaceWith(...page.body.childNodes);
      wire(fold);
    } catch (error) {
      note.textContent = `This could not be loaded (${error.message}). Fold it and open it again.`;
      fold.dataset.src = source;
    }
  }
  document.addEventListener("toggle", (event) => {
    const fold = event.target;
    if (fold.open && fold.dataset.src) load(fold);
  }, true);
  all("details[open][data-src]").forEach(load); // opened before this script was there

  function copies(within) {
    all("[data-copy]", within).forEach((button) => button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected: press Ctrl-C";
      }
    }));
    all("[data-download]", within).forEach((button) => button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([document.getElementById(button.dataset.download).textContent]));
      link.download = button.dataset.name;
      link.click();
      URL.revokeObjectURL(link.href);
    }));
  }

  function live() {
    const place = document.querySelector("[data-live]");
    if (!place || !("EventSource" in window)) return;
    const source = new EventSource(place.dataset.live);
    source.addEventListener("panel", (event) => {
      const fresh = new DOMParser().parseFromString(event.data, "text/html");
      document.getElementById("panel")?.replaceChildren(...fresh.body.childNodes);
    });
    source.addEventListener("changed", async () => {
      if (place.querySelector("details[open], :active")) return; // somebody is reading, or clicks
      let text;
      try {
        text = await (await fetch(location.href, { credentials: "same-origin" })).text();
      } catch {
        return; // somebody left the page, or the server is gone: the next change is told again
      }
      const page = new DOMParser().parseFromString(text, "text/html");
      // A run that has ended in the meantime is shown by `ended`, which loads the whole page.
      const fresh = page.querySelector("#content > div[data-live]");
      if (fresh) { place.replaceChildren(...fresh.childNodes); wire(place); }
    });
    // A form that was just sent leads on to another page; loading this one again would stop it.
    document.addEventListener("submit", () => source.close());
    // Without what was said when the run began: "The run is started."
    source.addEventListener("ended", () => { source.close(); location.replace(location.pathname); });
  }

  // One key for each answer, as in a terminal; not while somebody writes.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const place = all("[data-key]").find((each) => each.dataset.key === event.key.toLowerCase());
    if (!place) return;
    event.preventDefault();
    if (place.matches("input")) place.focus(); else place.click();
  });

  function wire(within) { charts(within); sortable(within); filters(within); copies(within); }
  wire(document);
  live();
})();
