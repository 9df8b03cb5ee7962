// In the browser: draws the Mermaid diagrams of a page, as GitHub does. Where Mermaid cannot be loaded, their text stays.

// A block, because scripts of a page share their names.
{
  const globals = /** @type {any} */ (globalThis);
  const { document, matchMedia } = globals;

  const blocks = [...document.querySelectorAll('pre > code.mermaid')];

  function draw() {
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
    const script = document.createElement('script');
    script.src = 'https://cdn.jsdelivr.net/npm/mermaid@11.17.2/dist/mermaid.min.js';
    script.integrity = 'sha384-EOXBFmc3gx5mb+vn0vPvvGqACToJD24hhacX5Yx+8NUUQrHIle/Qi5Bg9o3zKwW2';
    script.crossOrigin = 'anonymous';
    script.addEventListener('load', draw);
    document.head.append(script);
  }
}
