"""`gemline recipe`: prints a recipe's size, and says in one sentence which recipes there are."""

from click.testing import CliRunner

from orchestration.cli import main


def test_a_recipe_is_printed_at_a_worlds_schema() -> None:
    result = CliRunner().invoke(main, ["recipe", "gem_tiny", "--world", "tiny", "--candidates", "3"])
    assert result.exit_code == 0, result.output
    assert "name: gem_tiny" in result.output and "at 3 candidates a request and 10 events" in result.output


def test_an_unknown_recipe_is_one_sentence() -> None:
    result = CliRunner().invoke(main, ["recipe", "gem_huge", "--world", "tiny"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: no recipe 'gem_huge'; known: gem_demo, gem_small")
    assert result.output.count("\n") == 1
