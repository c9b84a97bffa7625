"use strict";
// The topic explorer. `models/lda/report.py` writes the data: probabilities are logarithms in units of
// 1 / data.unit, other shares are per mille, and words, topics and documents are numbers.
// Everything is shown through textContent, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const part = (name) => document.getElementById(`explore-${name}`);
  const exp = (log) => Math.exp(log / data.unit);
  const percent = (share) => `${(100 * share).toPrecision(share < 0.1 ? 2 : 3)}%`;
  const edits = data.topics.map(({ name }) => ({ name, into: null, dropped: false }));
  let current = data.order[0];

  function element(tag, content, name) {
    const node = document.createElement(tag);
    node.append(...[content].flat());
    if (name) node.className = name;
    return node;
  }

  function button(text, action) {
    const node = element("button", text, "link");
    node.type = "button";
    node.addEventListener("click", action);
    return node;
  }

  const toTopic = (k) => button(label(k), () => choose(k, true));

  function label(k) {
    const { name, words, p } = data.topics[k];
    const leading = words.map((word, i) => [p[i], data.words[word]]).sort((a, b) => b[0] - a[0]);
    return `${k} ${name || leading.slice(0, 3).map((pair) => pair[1]).join(", ")}`;
  }

  // Words by the relevance lambda log p + (1 - lambda) log(p / overall) of Sievert and Shirley (2014).
  function byRelevance(topic, lambda) {
    const relevance = topic.words.map((word, i) => topic.p[i] - (1 - lambda) * data.overall[word]);
    return [...relevance.keys()].sort((a, b) => relevance[b] - relevance[a]).slice(0, data.show);
  }

  function track(mean, interval, scale, overChains) {
    const bar = element("i", []), node = element("span", bar, "track");
    bar.style.width = percent(mean / scale);
    if (interval) {
      const line = element("b", [], overChains ? "chains" : "");
      line.style.left = percent(interval[0] / scale);
      line.style.width = percent((interval[1] - interval[0]) / scale);
      node.append(line);
    }
    return node;
  }

  function showWords() {
    const topic = data.topics[current], lambda = Number(part("lambda").value);
    part("value").textContent = `λ = ${lambda}`;
    const shown = byRelevance(topic, lambda).map((i) => ({
      word: data.words[topic.words[i]],
      mean: exp(topic.p[i]),
      interval: topic.interval && topic.interval.map((ends) => exp(ends[i])),
    }));
    const scale = Math.max(...shown.map(({ mean, interval }) => (interval ? interval[1] : mean)));
    part("words").replaceChildren(...shown.map(({ word, mean, interval }) => {
      const line = element("span", [element("bdi", word), element("small", percent(mean))]);
      const item = element("li", [line, track(mean, interval, scale, topic.over_chains)]);
      const of = topic.over_chains ? "chains: " : "";
      if (interval) item.title = `${of}${percent(interval[0])} to ${percent(interval[1])}`;
      return item;
    }));
  }

  function showTopic() {
    const topic = data.topics[current];
    part("topic").value = current;
    const all = element("a", "details");
    all.href = `#topic-${current}`;
    const title = [`Topic ${current}${topic.name ? `, ${topic.name}` : ""}: ${percent(topic.share)} of the tokens. `, all];
    part("title").replaceChildren(...title);
    part("related").replaceChildren(...topic.related.map(([k, similarity]) =>
      element("li", [element("span", percent(similarity / 1000), "share"), toTopic(k)])));
    part("documents").replaceChildren(...topic.documents.map(([name, share, excerpt]) => {
      const text = element("span", [element("bdi", name), " ", element("bdi", excerpt, "excerpt")]);
      return element("li", [element("span", percent(share / 1000), "share"), text]);
    }));
    const scale = Math.max(...topic.effects.map(([, , , upper]) => upper));
    part("known").hidden = !topic.effects.length;
    part("effects").replaceChildren(...topic.effects.map(([term, mean, ...ends]) => {
      const interval = ends.map((end) => Math.max(end, 0));
      const item = element("li", [element("span", percent(mean / 1000), "share"),
        element("span", [element("bdi", term), track(Math.max(mean, 0), interval, scale)])]);
      item.title = ends.map((end) => percent(end / 1000)).join(" to ");
      return item;
    }));
    showWords();
    showEdit();
  }

  // The topic that one is merged into in the end; topics point at each other without circles.
  const root = (k) => (edits[k].into === null ? k : root(edits[k].into));

  // The lines of the file that the command `edit` reads.
  function editLines() {
    const lines = [];
    edits.forEach(({ name, into, dropped }, k) => {
      if (dropped) lines.push(`drop ${k}`);
      else if (into === null) {
        const group = edits.flatMap((edit, i) => (!edit.dropped && root(i) === k ? [i] : []));
        if (group.length > 1 || (name && name !== data.topics[k].name)) lines.push(`${group.join("+")}\t${name}`.trim());
      }
    });
    return lines;
  }

  function showEdit() {
    const { name, into, dropped } = edits[current];
    part("name").value = name;
    part("drop").checked = dropped;
    part("into").replaceChildren(...[null, ...data.order].filter((k) => k === null || (root(k) !== current && !edits[k].dropped)).map((k) => {
      const option = element("option", k === null ? "no other topic" : label(k));
      option.value = k === null ? "" : k;
      return option;
    }));
    part("into").value = into === null ? "" : into;
    part("name").disabled = dropped || into !== null;
    part("into").disabled = dropped;
    part("drop").disabled = into !== null || edits.some((edit) => edit.into === current);
    part("edits").textContent = editLines().join("\n");
    part("download").disabled = !editLines().length;
  }

  function edit(change) {
    Object.assign(edits[current], change);
    showEdit();
  }

  function download() {
    const link = element("a", "");
    link.href = URL.createObjectURL(new Blob([`${editLines().join("\n")}\n`], { type: "text/plain" }));
    link.download = "topics.txt";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function choose(k, focus) {
    current = k;
    history.replaceState(null, "", `#explore-${k}`);
    showTopic();
    if (focus) part("title").focus();
  }

  const move = (by) => {
    const { order } = data;
    choose(order[(order.indexOf(current) + by + order.length) % order.length]);
  };

  // The topics of a word, by the share of its tokens that belong to each.
  function topicsOf(word) {
    const topics = [];
    data.topics.forEach((topic, k) => {
      const i = topic.words.indexOf(word);
      if (i >= 0) topics.push([k, Math.min(1, topic.share * exp(topic.p[i] - data.overall[word]))]);
    });
    return topics.sort((a, b) => b[1] - a[1]).slice(0, 5);
  }

  function matches(names, query, most) {
    const ranked = [];
    names.forEach((name, i) => {
      const place = name.toLowerCase().indexOf(query);
      if (place >= 0) ranked.push([place > 0, name.length, i]);
    });
    return ranked.sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, most).map((entry) => entry[2]);
  }

  function search() {
    const query = part("search").value.trim().toLowerCase();
    const line = (kind, name, mixture) => element("li", [`${kind} `, element("bdi", name), ": ",
      ...mixture.flatMap(([k, share]) => [toTopic(k), ` ${percent(share)}  `])]);
    const rows = !query ? [] : [
      ...matches(data.words, query, 8).map((i) => line("word", data.words[i], topicsOf(i))),
      ...matches(data.documents, query, 8).map((i) =>
        line("document", data.documents[i], data.mixtures[i].map(([k, share]) => [k, share / 1000]))),
    ];
    const none = query && !rows.length ? [element("li", "No match on this page.", "none")] : [];
    part("found").replaceChildren(...rows, ...none);
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === part("search") && event.key === "Escape") {
      part("search").value = "";
      search();
    }
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      part("search").focus();
    } else if (event.key === "n") move(1);
    else if (event.key === "p") move(-1);
  }

  function follow() {
    const match = /^#(?:explore|topic)-(\d+)$/.exec(location.hash);
    if (match && match[1] in data.topics) {
      current = Number(match[1]);
      showTopic();
    }
  }

  function begin() {
    const count = (number) => number.toLocaleString("en");
    part("shown").textContent = `The page has ${count(data.words.length)} of ${count(data.all.words)} words, those that `
      + `lead a topic at some position of the slider, and ${count(data.documents.length)} of ${count(data.all.documents)} documents`
      + `${data.documents.length && data.documents.length < data.all.documents ? ", those most about a topic" : ""}. `
      + "Keys: n and p for the next and the previous topic, / to search.";
    part("topic").append(...data.order.map((k) => {
      const option = element("option", `${label(k)} (${percent(data.topics[k].share)})`);
      option.value = k;
      return option;
    }));
    part("topic").addEventListener("change", (event) => choose(Number(event.target.value)));
    part("previous").addEventListener("click", () => move(-1));
    part("next").addEventListener("click", () => move(1));
    part("lambda").addEventListener("input", showWords);
    part("search").addEventListener("input", search);
    part("name").addEventListener("input", () => {
      edits[current].name = part("name").value.trim();
      part("edits").textContent = editLines().join("\n");
      part("download").disabled = !editLines().length;
    });
    part("into").addEventListener("change", () =>
      edit({ into: part("into").value === "" ? null : Number(part("into").value) }));
    part("drop").addEventListener("change", () => edit({ dropped: part("drop").checked }));
    part("download").addEventListener("click", download);
    document.addEventListener("keydown", key);
    addEventListener("hashchange", follow);
    const link = element("a", "Explore");
    link.href = "#explore";
    document.querySelector("nav a").after(link);
    document.getElementById("explore").hidden = false;
    if (location.hash.startsWith("#explore")) document.getElementById("explore").scrollIntoView();
    showTopic();
    follow();
  }

  begin();
})();
