// What a page does beyond links and forms: the composer, following the text, the dial's key. All of it can be missing.
(() => {
  const byId = (id) => document.getElementById(id);
  const composer = byId("composer");
  const field = composer && composer.elements.text;

  // Drafts: what is typed outlives a reload, a turn of the dial, a restart.
  const asked = new URLSearchParams(location.search).get("edit");
  const draft = `draft:${location.pathname}${asked ? `?edit=${asked}` : ""}`;
  const keep = () => (field.value ? sessionStorage.setItem(draft, field.value) : sessionStorage.removeItem(draft));
  const grow = () => {
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight + 2}px`;
  };
  const put = (text) => {
    field.value = text;
    keep();
    grow();
  };

  if (field) {
    field.value = sessionStorage.getItem(draft) || field.value;
    grow();
    field.addEventListener("input", () => (keep(), grow()));

    // Enter sends, but never what an input method still composes; on touch screens it breaks the line.
    let composing = false;
    field.addEventListener("compositionstart", () => (composing = true));
    field.addEventListener("compositionend", () => (composing = false));
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
      if (composing || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
      event.preventDefault();
      if (field.value.trim()) composer.requestSubmit();
    });

    // What is sent leaves the field at once, so that the next message can be typed; what could not be delivered
    // comes back in front of it.
    const sent = new WeakMap();
    document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
      if (ctx.sourceElement !== composer) return;
      sent.set(ctx, field.value);
      put("");
      following = true;
    });
    document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
      if (!sent.has(ctx) || (ctx.response && ctx.response.status < 400)) return;
      put([sent.get(ctx), field.value].filter(Boolean).join("\n\n"));
      if (!ctx.response) byId("problem").textContent = composer.dataset.unsent;
    });
    // The way without htmx: the page is left, and its draft with it.
    composer.addEventListener("submit", () => sessionStorage.removeItem(draft));
  }

  // The stream is followed only while the end is in view; else a link offers the new text.
  // Found anew each time: a move to another branch puts another element there.
  const transcript = () => byId("transcript");
  const link = byId("new-text");
  const act = byId("act");
  let following = false;
  if (transcript() && link) {
    const atEnd = () => act.getBoundingClientRect().top < innerHeight;
    let top = scrollY;
    const look = () => {
      // Only who scrolls up stops following: text that grows pushes the end away too.
      if (atEnd()) following = true;
      else if (scrollY < top) following = false;
      top = scrollY;
      if (following) link.hidden = true;
    };
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look, { passive: true });
    look();
    // Scrolling up to where the messages begin loads those before them; that is no new text.
    // What is read stays where it is: by our own hand, since browsers do not hold a page that is at its top.
    let loading = false;
    const root = document.documentElement;
    addEventListener("scroll", () => {
      const more = document.querySelector(".earlier a");
      if (more && !loading && !following && more.getBoundingClientRect().bottom > -200) more.click();
    }, { passive: true });
    document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
      if (!ctx.sourceElement?.closest?.(".earlier")) return;
      loading = true;
      root.style.overflowAnchor = "none";
    });
    let height = transcript().offsetHeight;
    // Right after a piece was put in and before the page is laid out, so that nothing is seen to jump. What changes
    // its height otherwise (a row that is opened, a font that comes late) is no news.
    new MutationObserver(() => {
      const more = transcript().offsetHeight - height;
      height += more;
      if (loading && more) {
        scrollBy({ top: more });
        loading = false;
        requestAnimationFrame(() => (root.style.overflowAnchor = ""));
        return;
      }
      if (more <= 0) return;
      look(); // The reader may have scrolled since the last frame, and the event of that is yet to come.
      if (following) {
        scrollTo({ top: document.documentElement.scrollHeight });
        top = scrollY;
      } else if (!atEnd()) link.hidden = false;
    }).observe(transcript().parentElement, { childList: true, characterData: true, subtree: true });
  }

  // Announced once, when an answer is complete; and when the server is gone.
  const announce = byId("announce");
  const gone = byId("gone");
  if (announce) {
    let state = byId("status").dataset.state;
    document.addEventListener("htmx:after:swap", () => {
      const now = byId("status").dataset.state;
      if (state === "running" && now === "idle") announce.textContent = announce.dataset.done;
      if (now === "running") announce.textContent = "";
      state = now;
    });
    document.addEventListener("htmx:sse:error", () => {
      gone.hidden = false;
      announce.textContent = announce.dataset.gone;
    });
    // A stream that is refused says why in the place for problems; that is over with the next connection.
    let refused = false;
    document.addEventListener("htmx:sse:after:message", ({ detail: { message } }) => {
      refused ||= message.data.includes('id="problem"');
    });
    document.addEventListener("htmx:sse:after:connection", () => {
      gone.hidden = true;
      if (refused) byId("problem").textContent = "";
      refused = false;
    });
  }

  // One menu at a time, closed by Escape, or by a press or the focus elsewhere.
  for (const left of ["click", "focusin"]) {
    document.addEventListener(left, ({ target }) => {
      for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(target)) menu.open = false;
    });
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "Escape") {
      for (const menu of document.querySelectorAll(".menu[open]")) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    } else if (event.key === "w" && !typing && !event.ctrlKey && !event.altKey && !event.metaKey) {
      if (document.body.dataset.keys !== "on") return;
      const stops = [...document.querySelectorAll("[data-dial]")];
      const next = stops[(stops.findIndex((stop) => stop.ariaCurrent) + 1) % stops.length];
      if (next) next.click();
    }
  });
})();
