"""The models as graphs, plates_MODEL.svg: python docs/figures/plates.py (pip install daft-pgm)."""

from pathlib import Path

import daft
import matplotlib as mpl

mpl.use("svg")
mpl.rcParams |= {"svg.hashsalt": "plates", "mathtext.fontset": "cm", "font.size": 13}
HERE = Path(__file__).parent


def topics() -> dict[str, daft.PGM]:
    """Return the graphs of the models of topics."""
    lda = _graph()
    _node(lda, "alpha", r"\alpha", 0, 1)
    _document(lda, "alpha")
    _topic(lda, r"\phi_k", ("beta", r"\beta"))

    hdp = _graph()
    _node(hdp, "gamma", r"\gamma", -1, 1)
    _node(hdp, "b", "b", 0, 1)
    _node(hdp, "alpha", r"\alpha", 0, 0.1)
    hdp.add_edge("gamma", "b")
    _document(hdp, "b", "alpha")
    _topic(hdp, r"\phi_k", ("beta", r"\beta"), count=r"$\infty$")

    sam = _graph()
    _node(sam, "alpha", r"\alpha", 0, 1)
    _node(sam, "theta", r"\theta_d", 1, 1)
    _node(sam, "v", "v_d", 2, 1, observed=True)
    _node(sam, "kappa", r"\kappa_1", 2, 0)
    for edge in (("alpha", "theta"), ("theta", "v"), ("kappa", "v")):
        sam.add_edge(*edge)
    sam.add_plate([0.5, 0.45, 2.0, 1.1], label="$D$")
    _node(sam, "topic", r"\beta_k", 3.2, 1)
    _node(sam, "mu", r"\mu", 4.2, 1)
    _node(sam, "sigma", r"\sigma", 4.2, 0)
    for edge in (("topic", "v"), ("mu", "topic"), ("sigma", "topic")):
        sam.add_edge(*edge)
    sam.add_plate([2.75, 0.45, 0.9, 1.1], label="$K$")
    return {"lda": lda, "hdp": hdp, "sam": sam}


def slices() -> daft.PGM:
    """Return the graph of topics in slices, of which it shows two."""
    graph = _graph()
    graph.add_plate([-0.8, -3.75, 4.2, 3.8], label="$K$")
    for t, x in (("1", 0.0), ("2", 2.6)):
        _node(graph, f"rho{t}", rf"\rho_{t}", x, 3.4)
        _node(graph, f"theta{t}", r"\theta_d", x, 2.4)
        _node(graph, f"z{t}", "z_{di}", x, 1.5)
        _node(graph, f"w{t}", "w_{di}", x, 0.6, observed=True)
        _node(graph, f"psi{t}", r"\psi_{dk}", x, -0.45)
        _node(graph, f"p{t}", rf"p_{{k{t}}}", x, -1.8)
        for edge in (("rho", "theta"), ("theta", "z"), ("z", "w"), ("psi", "w"), ("p", "psi")):
            graph.add_edge(*(f"{name}{t}" for name in edge))
        graph.add_plate([x - 0.7, -1.2, 1.4, 4.05], label=f"$D_{t}$")
        graph.add_plate([x - 0.55, 0.15, 1.1, 1.8], label="$N_d$")
    for name in ("rho", "p"):
        graph.add_edge(f"{name}1", f"{name}2")
    _node(graph, "m", "m", 1.3, 0.6)
    for t in "12":
        graph.add_edge("m", f"psi{t}")
    _node(graph, "c", "c_k", 0.0, -3.05)
    _node(graph, "base", "p_{k0}", 1.3, -3.05)
    _node(graph, "r", "r_k", 2.6, -3.05)
    _node(graph, "beta", r"\beta", 1.3, -4.35)
    edges = (("base", "p1"), ("base", "p2"), ("c", "p1"), ("c", "p2"), ("r", "p2"))
    for edge in (*edges, ("beta", "base")):
        graph.add_edge(*edge)
    return graph


def mixture() -> daft.PGM:
    """Return the graph of a Dirichlet-process mixture."""
    graph = _graph()
    _node(graph, "alpha", r"\alpha", 0, 1)
    _node(graph, "w", "w", 1, 1)
    _node(graph, "z", "z_i", 2, 1)
    _node(graph, "x", "x_i", 3, 1, observed=True)
    _node(graph, "theta", r"\theta_j", 4.2, 1)
    _node(graph, "G", "G_0", 5.2, 1)
    for edge in (("alpha", "w"), ("w", "z"), ("z", "x"), ("theta", "x"), ("G", "theta")):
        graph.add_edge(*edge)
    graph.add_plate([1.5, 0.45, 2.0, 1.1], label="$N$")
    graph.add_plate([3.75, 0.45, 0.9, 1.1], label=r"$\infty$")
    return graph


def _graph() -> daft.PGM:
    return daft.PGM(dpi=100, node_unit=0.95, grid_unit=2.0)


def _node(
    graph: daft.PGM, name: str, label: str, x: float, y: float, *, observed: bool = False
) -> None:
    graph.add_node(name, f"${label}$", x, y, observed=observed)


def _document(graph: daft.PGM, *parents: str) -> None:
    """Add proportions, labels and words of a document."""
    _node(graph, "theta", r"\theta_d", 1, 1)
    _node(graph, "z", "z_{di}", 2, 1)
    _node(graph, "w", "w_{di}", 3, 1, observed=True)
    for edge in (*((parent, "theta") for parent in parents), ("theta", "z"), ("z", "w")):
        graph.add_edge(*edge)
    graph.add_plate([0.5, 0.2, 3.15, 1.5], label="$D$")
    graph.add_plate([1.5, 0.4, 2.0, 1.15], label="$N_d$")


def _topic(graph: daft.PGM, label: str, prior: tuple[str, str], count: str = "$K$") -> None:
    _node(graph, "topic", label, 4.3, 1)
    _node(graph, *prior, 5.3, 1)
    graph.add_edge("topic", "w")
    graph.add_edge(prior[0], "topic")
    graph.add_plate([3.85, 0.45, 0.9, 1.1], label=count)


def main() -> None:
    """Draw all."""
    for name, graph in (topics() | {"dtm": slices(), "dpm": mixture()}).items():
        graph.render()
        graph.figure.savefig(
            HERE / f"plates_{name}.svg", facecolor="white", metadata={"Date": None}
        )


if __name__ == "__main__":
    main()
