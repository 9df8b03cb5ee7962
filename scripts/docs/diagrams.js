// In the browser: draws the Mermaid diagrams of a page, as GitHub does. Where Mermaid cannot be loaded, their text stays.

// A block, because scripts of a page share their names.
{
  const globals = /** @type {any} */ (globalThis);
  const { document, matchMedia } = globals;

  const blocks = [...document.querySelectorAll('pre > code.mermaid')];

  function draw() {
    // typedoc hides the page until its own script has run, and Mermaid measures what it draws.
    if (document.body.style.display === 'none') {
      globals.requestAnimationFrame(draw);
      return;
    }
    const { theme } = document.documentElement.dataset;
    const dark =
      theme === 'dark' || (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
    const diagrams = blocks.map((code) => {
      const diagram = document.createElement('div');
      diagram.className = 'diagram';
      diagram.textContent = code.textContent;
      code.parentElement.replaceWith(diagram);
      return diagram;
    });
    globals.mermaid.initialize({ startOnLoad: false, theme: dark ? 'dark' : 'neutral' });
    void globals.mermaid.run({ nodes: diagrams });
  }

  if (blocks.length > 0) {
    // Once loaded, Mermaid would draw by itself what has its name, and read the highlighted code as text.
    for (const code of blocks) code.classList.replace('mermaid', 'diagram');
    const script = document.createElement('script');
    script.src = `${document.documentElement.dataset.base}assets/mermaid.js`;
    script.addEventListener('load', draw);
    document.head.append(script);
  }
}
