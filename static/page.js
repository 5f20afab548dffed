// The composer: what is sent leaves the field at once, so that the next message can be typed; what could not be
// delivered comes back in front of it.
(() => {
  const sent = new WeakMap();

  document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
    if (ctx.sourceElement.id !== "composer") return;
    const field = ctx.sourceElement.elements.text;
    sent.set(ctx, field.value);
    field.value = "";
  });

  document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
    if (!sent.has(ctx) || (ctx.response && ctx.response.status < 400)) return;
    const field = ctx.sourceElement.elements.text;
    field.value = [sent.get(ctx), field.value].filter(Boolean).join("\n\n");
    if (!ctx.response) document.getElementById("problem").textContent = ctx.sourceElement.dataset.unsent;
  });
})();
