// The elements of app/dashboard/frozen.py. Texts become text, never HTML.
window.hyperoffload = {
  Frozen: ({ tree }) => {
    const made = (part) => {
      if (!Array.isArray(part)) return part;
      const [name, properties, ...children] = part;
      return React.createElement(name || React.Fragment, properties, ...children.map(made));
    };
    return made(tree ?? null);
  },
};
